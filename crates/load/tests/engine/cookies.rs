//! Cookies of virtual users.

use madang_load::Layer;

use crate::support::{Request, Script, Server, response};

/// Sets cookies as the path says, and answers with the cookies it got.
fn server() -> Server {
    Server::start(|request: &Request| {
        let set = match request.path() {
            "/set" => {
                "Set-Cookie: a=1; Path=/\r\nSet-Cookie: b=2; Path=/; HttpOnly; Max-Age=60\r\n"
            }
            "/redirect" => {
                return response("302 F", "Location: /got\r\nSet-Cookie: r=1; Path=/\r\n", "");
            }
            _ => "",
        };
        response("200 OK", set, request.header("cookie").unwrap_or("none"))
    })
}

#[test]
fn a_jar_keeps_what_responses_set_also_on_redirects() {
    let script = "const first = http.get(URL + '/set');
         check(http.get(URL + '/got').body, { both: (b) => b === 'a=1; b=2' });
         check(http.get(URL + '/redirect').body, { all: (b) => b === 'a=1; b=2; r=1' });
         const b = first.cookies.b[0];
         check(first, { 'res.cookies': () => b.value === '2' && b.http_only && b.max_age === 60 && b.path === '/' });";
    Script::body(script).against(&server()).run().assert_all_checks_passed();
}

#[test]
fn every_iteration_begins_without_cookies_unless_the_options_say_otherwise() {
    for (keep, second) in [(false, "none"), (true, "a=1; b=2")] {
        let mut script = Script::body(&format!(
            "const got = http.get(URL + '/set').body;
             check(got, {{ cookies: (got) => got === (__ITER === 0 ? 'none' : '{second}') }});"
        ));
        script.config.overrides = Layer {
            iterations: Some(2),
            vus: Some(1),
            no_cookies_reset: Some(keep),
            ..Layer::default()
        };
        script.against(&server()).run().assert_all_checks_passed();
    }
}

#[test]
fn requests_add_cookies_of_their_own_or_replace_those_of_the_jar() {
    let script = "const got = (params) => http.get(URL + '/got', params).body;
         http.get(URL + '/set');
         check(null, {
             added: () => got({ cookies: { a: 'x', c: 3 } }) === 'a=x; c=3; a=1; b=2',
             replaced: () => got({ cookies: { a: { value: 'x', replace: true } } }) === 'a=x; b=2',
             'not kept': () => got() === 'a=1; b=2',
             header: () => got({ headers: { Cookie: 'h=1' } }) === 'h=1; a=1; b=2',
         });";
    Script::body(script).against(&server()).run().assert_all_checks_passed();
}

#[test]
fn scripts_read_and_write_jars() {
    let script = "const jar = http.cookieJar();
         const own = new http.CookieJar();
         own.set(URL, 'o', '1');
         check(null, {
             set: () => jar.set(URL, 'j', '1', { path: '/deep' }) && http.get(URL + '/deep/x').body === 'j=1',
             'other path': () => http.get(URL + '/got').body === 'none',
             read: () => JSON.stringify(jar.cookiesForURL(URL + '/deep')) === '{\"j\":[\"1\"]}',
             'own jar': () => http.get(URL + '/deep/x', { jar: own }).body === 'o=1',
             'foreign domain': () => jar.set(URL, 'f', '1', { domain: 'example.org' }) === false,
             deleted: () => { jar.delete(URL + '/deep', 'j'); return http.get(URL + '/deep/x').body === 'none'; },
             cleared: () => { own.clear(URL); return http.get(URL, { jar: own }).body === 'none'; },
             class: () => jar instanceof http.CookieJar,
         });";
    Script::body(script).against(&server()).run().assert_all_checks_passed();
}
