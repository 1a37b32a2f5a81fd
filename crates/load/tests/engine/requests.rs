//! Batches, asynchronous requests, forms, codings, and which statuses are expected.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{Answer, Request, Script, Server, ok, response};

#[test]
fn a_batch_answers_under_the_keys_of_its_requests() {
    let server =
        Server::start(|request: &Request| ok(&format!("{} {}", request.line, request.body)));
    let script = "const list = http.batch([URL + '/a', ['post', URL + '/b', 'x', { tags: { name: 'n' } }],
             { method: 'PUT', url: URL + '/c', body: { k: 'v' } }, http.url`${URL}/d/${7}`]);
         const map = http.batch({ one: URL + '/1', two: { url: URL + '/2' } });
         check(list, {
             array: () => Array.isArray(list) && list.length === 4,
             bodies: () => list.map((r) => r.body).join('|') === 'GET /a |POST /b x|PUT /c k=v|GET /d/7 ',
             map: () => map.one.body === 'GET /1 ' && map.two.body === 'GET /2 ',
         });";
    let ran = Script::body(script).against(&server).run();
    ran.assert_all_checks_passed();
    let export = ran.export.unwrap();
    assert_eq!(export["metrics"]["http_reqs"]["count"], 6.0, "{export}");
}

#[test]
fn the_requests_of_a_batch_are_under_way_together_but_not_more_than_allowed() {
    // Nobody is answered before `limit` requests are there: a batch that sends one after the other
    // would time out. One more than the limit would show in the connections.
    for limit in [3, 5] {
        let waiting = Arc::new(AtomicU64::new(0));
        let server = Server::start(move |_| {
            waiting.fetch_add(1, Ordering::SeqCst);
            ok("x")
        });
        let script = Script::new(&format!(
            "import http from 'k6/http'; import {{ check }} from 'k6';
             export const options = {{ batch: 10, batchPerHost: {limit} }};
             export default function () {{
                 const all = http.batch(Array(20).fill(__ENV.URL));
                 check(all, {{ answered: (all) => all.every((r) => r.status === 200) }});
             }}"
        ));
        script.against(&server).run().assert_all_checks_passed();
        let connections = server.requests().iter().map(|request| request.connection).max();
        assert_eq!(connections, Some(limit - 1));
    }
}

#[test]
fn asynchronous_requests_go_on_while_the_script_does_something_else() {
    let server = Server::start(|request: &Request| ok(request.path()));
    let script = Script::new(
        "import http from 'k6/http'; import { check, sleep } from 'k6';
         export default async function () {
             const a = http.asyncRequest('GET', __ENV.URL + '/a');
             const b = http.asyncRequest('GET', __ENV.URL + '/b');
             sleep(0.05);
             const both = await Promise.all([a, b]);
             check(both, { both: () => both.map((r) => r.body).join() === '/a,/b' });
             try { await http.asyncRequest('GET', 'http://127.0.0.1:1/', null, { throw: true }); }
             catch (e) { check(e, { thrown: () => String(e).includes('refused') }); }
         }",
    );
    script.against(&server).run().assert_all_checks_passed();
}

#[test]
fn a_file_makes_a_multipart_form() {
    let server = Server::start(|request: &Request| {
        let kind = request.header("content-type").unwrap_or_default();
        ok(&format!("{kind}\n{}", request.body))
    });
    let script = r#"const body = http.post(URL, { text: 'v', up: http.file('data', 'a"b.txt', 'text/plain') }).body;
         const boundary = /^multipart\/form-data; boundary=(\w+)\n/.exec(body)[1];
         check(body, { form: (b) => b.split('\n').slice(1).join('\n') ===
             `--${boundary}\r\nContent-Disposition: form-data; name="text"\r\n\r\nv\r\n` +
             `--${boundary}\r\nContent-Disposition: form-data; name="up"; filename="a%22b.txt"\r\nContent-Type: text/plain\r\n\r\ndata\r\n` +
             `--${boundary}--\r\n` });"#;
    Script::body(script).against(&server).run().assert_all_checks_passed();
}

#[test]
fn expected_statuses_decide_what_failed() {
    let server = Server::start(|_| response("404 Not Found", "", ""));
    let script = "http.get(URL);
         http.get(URL, { responseCallback: http.expectedStatuses(404) });
         http.get(URL, { responseCallback: null });
         http.setResponseCallback(http.expectedStatuses({ min: 400, max: 499 }, 200));
         http.get(URL);
         check(null, { wrong: () => { try { http.expectedStatuses('a'); } catch (e) { return true; } } });";
    let ran = Script::body(script).against(&server).run();
    ran.assert_all_checks_passed();
    let failed = &ran.export.unwrap()["metrics"]["http_req_failed"];
    assert_eq!((&failed["passes"], &failed["fails"]), (&1.into(), &2.into()), "{failed}");
}

fn encoded(coding: &str, body: &[u8]) -> Answer {
    let mut bytes = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    Answer::Send(bytes)
}

#[test]
fn encoded_bodies_are_decoded_and_broken_ones_fail_the_request() {
    // `printf hello | gzip -n9 | xxd -p`.
    let gzip = [
        0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xcb, 0x48, 0xcd, 0xc9, 0xc9,
        0x07, 0x00, 0x86, 0xa6, 0x10, 0x36, 0x05, 0x00, 0x00, 0x00,
    ];
    let server = Server::start(move |request: &Request| match request.path() {
        "/good" => encoded("gzip", &gzip),
        "/unknown" => encoded("custom", b"plain"),
        _ => encoded("gzip", b"no gzip"),
    });
    let script = "check(http.get(URL + '/good'), { good: (r) => r.body === 'hello' && r.headers['Content-Encoding'] === 'gzip' });
         check(http.get(URL + '/unknown'), { unknown: (r) => r.body === 'plain' });
         check(http.get(URL + '/bad'), { bad: (r) => r.status === 0 && r.error_code === 1701 });
         check(http.get(URL + '/bad', { responseType: 'none' }), { discarded: (r) => r.status === 200 });";
    Script::body(script).against(&server).run().assert_all_checks_passed();
}

#[test]
fn request_bodies_are_compressed_as_asked() {
    let server = Server::start(|request: &Request| {
        ok(&format!(
            "{} {}",
            request.header("content-encoding").unwrap_or("none"),
            request.header("content-length").unwrap_or("none")
        ))
    });
    let long = "'a'.repeat(10000)";
    let script = format!(
        "const [coding, length] = http.post(URL, {long}).body.split(' ');
         check(null, {{ plain: () => coding === 'none' && length === '10000' }});
         const {{ error }} = http.post(URL, 'x', {{ compression: 'zip' }});
         check(error, {{ unknown: (text) => text.includes('unknown compression algorithm zip') }});"
    );
    Script::body(&script).against(&server).run().assert_all_checks_passed();
}

#[test]
fn a_challenge_is_answered_with_user_and_password_of_the_address() {
    let server = Server::start(|request: &Request| match request.header("authorization") {
        Some(answer) if answer.contains("username=\"kim\"") && answer.contains("nc=00000001") => {
            ok("in")
        }
        _ if request.path() == "/open" => ok("open"),
        _ => response(
            "401 Unauthorized",
            "WWW-Authenticate: Basic realm=\"r\"\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\", qop=\"auth\"\r\n",
            "",
        ),
    });
    let ran = Script::body(
        "const address = (path) => URL.replace('//', '//kim:secret@') + path;
         const r = http.post(address('/digest'), 'body', { auth: 'digest' });
         check(r, {
             let_in: () => r.status === 200 && r.body === 'in',
             open: () => http.post(address('/open'), 'x', { auth: 'digest' }).body === 'open',
             nobody: () => http.get(URL, { auth: 'digest' }).status === 401,
         });",
    )
    .against(&server)
    .run();
    ran.assert_all_checks_passed();
    let seen: Vec<_> = server
        .requests()
        .iter()
        .map(|request| format!("{} {}", request.line, request.body))
        .collect();
    assert_eq!(seen, ["POST /digest body", "POST /digest body", "POST /open x", "GET / "]);
    let export = ran.export.unwrap();
    // As in k6: the one that needed no answer was expected to be refused.
    assert_eq!(export["metrics"]["http_req_failed"]["passes"], 2, "{export}");
}
