//! `k6/http` against servers, friendly and not.

use std::sync::Arc;

use madang_load::Layer;
use tokio::sync::Barrier;

use crate::support::{Answer, Script, Server, ok, reserve_port, response};

/// Runs a body once against a server and expects every check to pass.
fn passes(server: &Server, body: &str) {
    Script::body(body).against(server).run().assert_all_checks_passed();
}

#[test]
fn a_response_has_the_fields_k6_documents() {
    let server = Server::start(|_| {
        response("201 Created", "content-type: text/plain\r\nX-A: 1\r\nx-a: 2\r\n", "hé")
    });
    passes(
        &server,
        r#"const res = http.get(`${URL}/path?q=1`, { headers: { 'X-Y': 'z' } });
        check(res, {
            status: (r) => r.status === 201,
            status_text: (r) => r.status_text === '201 Created',
            body: (r) => r.body === 'hé',
            headers: (r) => r.headers['Content-Type'] === 'text/plain' && r.headers['X-A'] === '1, 2',
            url: (r) => r.url === `${URL}/path?q=1`,
            proto: (r) => r.proto === 'HTTP/1.1',
            error: (r) => r.error === '' && r.error_code === 0,
            timings: (r) => r.timings.duration > 0
                && Math.abs(r.timings.duration - r.timings.sending - r.timings.waiting - r.timings.receiving) < 1e-6
                && r.timings.blocked >= r.timings.connecting && r.timings.tls_handshaking === 0,
            request: (r) => r.request.method === 'GET' && r.request.headers['X-Y'][0] === 'z',
            'own properties after reading': (r) => Object.keys(r).includes('body'),
            'as JSON': (r) => JSON.parse(JSON.stringify(r)).status === 201,
            'can be assigned': (r) => { r.body = 'mine'; return r.body === 'mine'; },
        });"#,
    );
}

#[test]
fn every_method_sends_its_name_and_body() {
    let server = Server::start(|request| ok(&format!("{} {}", request.line, request.body)));
    passes(
        &server,
        r#"const is = (text) => ({ [text]: (r) => r.body === text });
        check(http.get(`${URL}/g`), is('GET /g '));
        check(http.post(`${URL}/p`, 'x'), is('POST /p x'));
        check(http.put(`${URL}/u`, 'x'), is('PUT /u x'));
        check(http.patch(`${URL}/a`, 'x'), is('PATCH /a x'));
        check(http.del(`${URL}/d`), is('DELETE /d '));
        check(http.options(`${URL}/o`), is('OPTIONS /o '));
        check(http.request('purge', `${URL}/r`, 'x'), is('PURGE /r x'));
        check(http.post(`${URL}/bytes`, new Uint8Array([104, 105]).buffer), is('POST /bytes hi'));
        check(http.post(`${URL}/view`, new Uint8Array([0, 104, 105]).subarray(1)), is('POST /view hi'));"#,
    );
}

#[test]
fn an_object_body_is_a_form() {
    let server = Server::start(|request| {
        ok(&format!("{} {}", request.header("content-type").unwrap(), request.body))
    });
    passes(
        &server,
        r#"check(http.post(URL, { b: 'x y', a: [1, 'ü'] }), {
            form: (r) => r.body === 'application/x-www-form-urlencoded a=1&a=%C3%BC&b=x+y',
        });
        check(http.post(URL, { a: 1 }, { headers: { 'Content-Type': 'own' } }), {
            'its own type': (r) => r.body === 'own a=1',
        });"#,
    );
}

#[test]
fn a_post_without_a_body_says_that_it_has_none() {
    let server = Server::start(|request| ok(request.header("content-length").unwrap_or("none")));
    passes(
        &server,
        "check(http.post(URL), { zero: (r) => r.body === '0' });
         check(http.get(URL), { none: (r) => r.body === 'none' });",
    );
}

#[test]
fn head_has_no_body_whatever_the_length_says() {
    let server = Server::start(|request| {
        let length = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        if request.line.starts_with("HEAD") {
            Answer::Send(length.into())
        } else {
            Answer::Send(format!("{length}hello").into_bytes())
        }
    });
    passes(
        &server,
        "check(http.head(URL), { empty: (r) => r.body === '' });
         check(http.get(URL), { full: (r) => r.body === 'hello' });",
    );
    let connections: Vec<u64> =
        server.requests().iter().map(|request| request.connection).collect();
    assert_eq!(connections, [0, 0]);
}

#[test]
fn connections_are_kept_between_requests_and_iterations_of_a_virtual_user() {
    let server = Server::start(|_| ok("x"));
    let run = Script::body("http.get(URL); http.get(URL);").against(&server);
    let ran = run.options(Layer { vus: Some(1), iterations: Some(5), ..Layer::default() }).run();
    assert_eq!(ran.report().requests.total, 10);
    assert!(server.requests().iter().all(|request| request.connection == 0));
}

#[test]
fn no_connection_reuse_opens_one_per_request() {
    let server = Server::start(|_| ok("x"));
    let options = Layer { no_connection_reuse: Some(true), ..Layer::default() };
    Script::body("http.get(URL); http.get(URL);").against(&server).options(options).run();
    let seen = server.requests();
    assert_eq!(seen.iter().map(|request| request.connection).collect::<Vec<_>>(), [0, 1]);
    assert!(seen.iter().all(|request| request.header("connection") == Some("close")));
}

#[test]
fn no_vu_connection_reuse_opens_one_per_iteration() {
    let server = Server::start(|_| ok("x"));
    let options = Layer {
        no_vu_connection_reuse: Some(true),
        vus: Some(1),
        iterations: Some(2),
        ..Layer::default()
    };
    Script::body("http.get(URL); http.get(URL);").against(&server).options(options).run();
    let connections: Vec<u64> =
        server.requests().iter().map(|request| request.connection).collect();
    assert_eq!(connections, [0, 0, 1, 1]);
}

#[test]
fn a_kept_connection_that_the_server_closed_is_replaced_without_an_error() {
    let server = Server::start(|request| {
        let Answer::Send(bytes) = ok("x") else { unreachable!() };
        // Without saying so in a header, as an idle timeout does.
        if request.path() == "/last" { Answer::SendAndClose(bytes) } else { Answer::Send(bytes) }
    });
    passes(
        &server,
        "for (let i = 0; i < 20; i++) {
            check(http.get(`${URL}/last`), { 'first': (r) => r.status === 200 });
            check(http.get(`${URL}/next`), { 'second': (r) => r.status === 200 });
        }",
    );
}

#[test]
fn a_post_is_not_repeated_when_the_connection_breaks() {
    let server = Server::start(|request| match request.path() {
        "/warm" => ok("x"),
        _ => Answer::SendAndClose(Vec::new()),
    });
    passes(
        &server,
        "http.get(`${URL}/warm`);
         check(http.post(`${URL}/break`, 'x'), {
            failed: (r) => r.status === 0 && r.error !== '' && r.error_code >= 1000 && r.body === null,
         });",
    );
    let posts = server.requests().iter().filter(|request| request.path() == "/break").count();
    assert_eq!(posts, 1);
}

#[test]
fn a_get_is_repeated_once_on_a_fresh_connection() {
    let server = Server::start(|request| match (request.path(), request.connection) {
        ("/x", 0) => Answer::SendAndClose(Vec::new()),
        _ => ok("x"),
    });
    passes(
        &server,
        "http.get(`${URL}/warm`);
         check(http.get(`${URL}/x`), { 'second try': (r) => r.status === 200 });",
    );
}

#[test]
fn bodies_are_read_chunked_to_the_length_and_to_the_end() {
    let server = Server::start(|request| {
        match request.path() {
        "/chunked" => Answer::Send(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: t\r\n\r\n".to_vec(),
        ),
        "/close" => Answer::SendAndClose(b"HTTP/1.1 200 OK\r\n\r\nuntil the end".to_vec()),
        "/old" => Answer::SendAndClose(b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nold".to_vec()),
        _ => ok(&"x".repeat(300_000)),
    }
    });
    passes(
        &server,
        "check(http.get(`${URL}/chunked`), { chunked: (r) => r.body === 'abcde' });
         check(http.get(`${URL}/close`), { close: (r) => r.body === 'until the end' });
         check(http.get(`${URL}/old`), { old: (r) => r.body === 'old' && r.proto === 'HTTP/1.0' });
         check(http.get(`${URL}/large`), { large: (r) => r.body.length === 300000 });",
    );
}

#[test]
fn informational_responses_are_skipped() {
    let server = Server::start(|_| {
        Answer::Send(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n".to_vec(),
        )
    });
    passes(&server, "check(http.get(URL), { final: (r) => r.status === 204 && r.body === null });");
}

#[test]
fn broken_answers_fail_the_request_and_not_the_run() {
    let server = Server::start(|request| {
        let text: Vec<u8> = match request.path() {
            "/garbage" => b"\x00\x01 not HTTP at all\r\n\r\n".to_vec(),
            "/lengths" => {
                b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".to_vec()
            }
            "/short" => b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort".to_vec(),
            "/chunk" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n".to_vec(),
            "/head" => b"HTTP/1.1 200 OK\r\nA: ".to_vec(),
            "/huge" => {
                format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "a".repeat(400_000)).into_bytes()
            }
            "/body" => b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n".to_vec(),
            "/upgrade" => b"HTTP/1.1 101 Switching Protocols\r\n\r\n".to_vec(),
            _ => Vec::new(),
        };
        Answer::SendAndClose(text)
    });
    let run = Script::body(
        "for (const path of ['garbage', 'lengths', 'short', 'chunk', 'head', 'huge', 'body', 'upgrade', 'nothing']) {
            check(http.get(`${URL}/${path}`), {
                [path]: (r) => r.status === 0 && r.error !== '' && r.error_code === 1000 && r.body === null,
            });
        }",
    );
    let ran = run.against(&server).run();
    ran.assert_all_checks_passed();
    assert_eq!(ran.report().requests.failed, 9);
    assert_eq!(ran.report().status_codes["0"], 9);
    assert!(ran.said("Request Failed"));
}

#[test]
fn bytes_after_a_response_never_become_the_next_one() {
    let server = Server::start(|request| {
        match request.path() {
        "/smuggle" => Answer::Send(
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil".to_vec(),
        ),
        _ => ok("good"),
    }
    });
    passes(
        &server,
        "http.get(`${URL}/smuggle`);
         check(http.get(`${URL}/next`), { good: (r) => r.body === 'good' });",
    );
}

#[test]
fn a_request_ends_at_its_timeout() {
    let server = Server::start(|_| Answer::Hang);
    passes(
        &server,
        "check(http.get(URL, { timeout: 50 }), { number: (r) => r.error_code === 1050 && r.status === 0 });
         check(http.get(URL, { timeout: '50ms' }), { text: (r) => r.error === 'request timeout' });",
    );
}

#[test]
fn nobody_listening_is_connection_refused() {
    let (_reserved, free) = reserve_port();
    let mut script = Script::body(
        "check(http.get(URL), { refused: (r) => r.error === 'dial: connection refused' && r.error_code === 1212 });
         try { http.get(URL, { throw: true }); } catch (e) { check(e, { thrown: (e) => e.message.includes('refused') }); }",
    );
    script.config.environment = crate::support::variable("URL", &format!("http://{free}"));
    script.run().assert_all_checks_passed();
}

#[test]
fn wrong_addresses_and_headers_are_told() {
    let server = Server::start(|_| ok("x"));
    passes(
        &server,
        "check(http.get('http://h:x/'), { invalid: (r) => r.error_code === 1020 && r.status === 0 });
         check(http.get(URL, { headers: { 'A': 'b\\r\\nC: d' } }), { injection: (r) => r.status === 0 });
         check(http.get(`${URL}/a b\"c`), { encoded: (r) => r.status === 200 });",
    );
    let lines: Vec<String> = server.requests().iter().map(|request| request.line.clone()).collect();
    assert_eq!(lines, ["GET /a%20b%22c"]);
}

/// In a report, failed checks alone would not say what is wrong.
#[test]
fn an_address_that_is_none_is_a_trouble_of_the_report() {
    let ran = Script::body("http.get('http://h:x/');").run();
    let report = ran.report();
    assert_eq!(report.requests.total, 0);
    assert!(report.failures[0].message.starts_with("invalid URL"), "{:?}", report.failures);
}

#[test]
fn redirects_are_followed_by_the_rules_and_each_counts() {
    let server = Server::start(|request| match request.path() {
        "/303" => response("303 See Other", "Location: /end\r\n", ""),
        "/307" => response("307 Temporary Redirect", "Location: end?x\r\n", ""),
        "/loop" => response("302 Found", "Location: /loop\r\n", ""),
        "/ftp" => response("302 Found", "Location: ftp://localhost/\r\n", ""),
        _ => ok(&format!("{} {}", request.line, request.body)),
    });
    let run = Script::body(
        "check(http.post(`${URL}/303`, 'x'), { get: (r) => r.body === 'GET /end ' && r.url === `${URL}/end` });
         check(http.post(`${URL}/307`, 'x'), { post: (r) => r.body === 'POST /end?x x' });
         check(http.get(`${URL}/303`, { redirects: 0 }), { none: (r) => r.status === 303 });
         check(http.get(`${URL}/loop`), { limit: (r) => r.status === 302 });
         check(http.get(`${URL}/ftp`), { ftp: (r) => r.status === 0 && r.error.includes('\"ftp\"') });",
    );
    let ran = run.against(&server).run();
    ran.assert_all_checks_passed();
    assert_eq!(ran.report().requests.total, 2 + 2 + 1 + 11 + 1);
}

#[test]
fn user_information_in_the_address_is_basic_authorization() {
    let server = Server::start(|request| ok(request.header("authorization").unwrap_or("none")));
    passes(
        &server,
        "check(http.get(URL.replace('http://', 'http://user:pa%20ss@')), { basic: (r) => r.body === 'Basic dXNlcjpwYSBzcw==' });",
    );
}

#[test]
fn json_reads_the_body_and_parts_of_it() {
    let server = Server::start(|request| match request.path() {
        "/broken" => ok("{"),
        _ => ok(r#"{"a": {"b.c": [1, {"d": "x"}]}, "n": null, "list": [{"v": 1}, {"v": 2}]}"#),
    });
    passes(
        &server,
        r#"const res = http.get(URL);
        check(res, {
            whole: (r) => r.json().a['b.c'][0] === 1,
            path: (r) => r.json('a.b\\.c.1.d') === 'x',
            length: (r) => r.json('list.#') === 2,
            each: (r) => r.json('list.#.v').join() === '1,2',
            null: (r) => r.json('n') === null,
            nothing: (r) => r.json('a.x.y') === undefined && r.json('list.length') === undefined,
        });
        let thrown; try { http.get(`${URL}/broken`).json(); } catch (e) { thrown = e; }
        check(thrown, { broken: (e) => e instanceof SyntaxError });
        try { http.get('nonsense').json(); } catch (e) { thrown = e; }
        check(thrown, { 'no body': (e) => e.message.startsWith('the body is null') });"#,
    );
}

#[test]
fn bodies_can_be_binary_or_left_out() {
    let server = Server::start(|_| {
        Answer::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n\x00\xff\x01".to_vec())
    });
    passes(
        &server,
        "check(http.get(URL, { responseType: 'binary' }), {
            binary: (r) => r.body instanceof ArrayBuffer && new Uint8Array(r.body).join() === '0,255,1',
         });
         check(http.get(URL, { responseType: 'none' }), { none: (r) => r.body === null && r.status === 200 });",
    );
    let options = Layer { discard_response_bodies: Some(true), ..Layer::default() };
    let body = "check(http.get(URL), { discarded: (r) => r.body === null });
         check(http.get(URL, { responseType: 'text' }), { kept: (r) => r.body.length === 3 });";
    Script::body(body).against(&server).options(options).run().assert_all_checks_passed();
}

#[test]
fn the_user_agent_and_host_can_be_set() {
    let server = Server::start(|request| {
        ok(&format!(
            "{} {}",
            request.header("user-agent").unwrap(),
            request.header("host").unwrap()
        ))
    });
    let options = Layer { user_agent: Some("ours".to_owned()), ..Layer::default() };
    let body = "check(http.get(URL), { option: (r) => r.body === `ours ${URL.slice(7)}` });
         check(http.get(URL, { headers: { 'User-Agent': 'own', Host: 'h' } }), { header: (r) => r.body === 'own h' });";
    Script::body(body).against(&server).options(options).run().assert_all_checks_passed();
}

#[test]
fn a_server_that_answers_and_closes_before_reading_the_body_is_heard() {
    let server = Server::start(|_| ok("unused"));
    drop(server);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 512];
        stream.read_exact(&mut head).unwrap();
        stream
            .write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .unwrap();
        // Reads on without using it, so that the close is no reset.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let mut script = Script::body(
        "check(http.post(URL, 'x'.repeat(5000000)), { early: (r) => r.status === 413 && r.error_code === 1413 });",
    );
    script.config.environment = crate::support::variable("URL", &format!("http://{address}"));
    script.run().assert_all_checks_passed();
}

#[test]
fn slow_servers_overlap_over_virtual_users() {
    // None is answered before all have asked: one after another, only the first would ask.
    let all = Arc::new(Barrier::new(40));
    let server = Server::start(move |_| {
        let Answer::Send(bytes) = ok("x") else { panic!() };
        Answer::SendTogether(all.clone(), bytes)
    });
    let script = Script::new(
        "import http from 'k6/http';
         export const options = { scenarios: { s: { executor: 'per-vu-iterations', vus: 40,
            maxDuration: '60s', gracefulStop: '0s' } } };
         export default function () { http.get(__ENV.URL); }",
    );
    let ran = script.against(&server).run();
    assert_eq!((ran.report().requests.total, ran.report().requests.good), (40, 40));
}

#[test]
fn an_address_without_a_scheme_is_a_failed_request() {
    let ran = Script::body(
        "for (const url of ['/path', '', 'localhost:80']) {
            const failed = (r) => r.status === 0 && r.error_code === 1000 && r.body === null;
            check(http.get(url), { failed });
         }",
    )
    .run();
    assert_eq!(ran.check("failed"), (3, 0));
    let requests = ran.report().requests;
    assert_eq!((requests.total, requests.failed, requests.good), (3, 3, 0));
}

#[test]
fn a_status_that_has_no_body_has_null() {
    let server = Server::start(|request| match request.path() {
        "/204" => Answer::Send(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()),
        "/304" => Answer::Send(b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec()),
        _ => ok(""),
    });
    passes(
        &server,
        "check(http.get(`${URL}/204`), { 'no content': (r) => r.body === null });
         check(http.get(`${URL}/304`), { 'not modified': (r) => r.body === null });
         check(http.get(URL), { empty: (r) => r.body === '' });",
    );
}

#[test]
fn what_goes_over_the_wire_can_be_shown() {
    for (option, body) in [("", "first"), ("full", "first")] {
        let server = Server::start(|_| ok("an answer"));
        let mut script = Script::body(&format!("http.post(URL + '/p', '{body}')")).against(&server);
        script
            .config
            .overrides
            .set("httpDebug", if option.is_empty() { "true" } else { option })
            .unwrap();
        let ran = script.run();
        let shown = ran.messages.join("\n");
        assert!(shown.contains("Request:\\nPOST /p HTTP/1.1\\nHost: "), "{shown}");
        assert!(shown.contains("Response:\\nHTTP/1.1 200 OK\\n"), "{shown}");
        assert_eq!(shown.matches("request_id=").count(), 2, "{shown}");
        let has_bodies = shown.contains("\\n\\nfirst\\n") && shown.contains("\\n\\nan answer\\n");
        assert_eq!(has_bodies, option == "full", "{shown}");
    }
}
