//! Services and scripts in which something goes wrong without any process ending: nobody may read a verdict
//! from that, and the report says what it was.

use std::net::TcpListener;

use crate::{ACCEPT, Lab, Ran};

/// Python that answers well, or as `MODE` says, over HTTP/1.0.
const SERVER: &str = r#"
import http.server, sys, threading, time
mode, begun = sys.argv[2], time.time()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if mode == "hang" and self.path != "/ready" and time.time() - begun > 1:
            time.sleep(3600)
        body = b'{"id": 1}' if mode != "empty" else b'{"error": "none"}'
        self.send_response(500 if mode == "broken" and self.path != "/ready" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer.daemon_threads = True
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

/// The good server against one of a mode.
fn run(mode: &str, script: &str, metric: &str) -> Ran {
    let variant = |name: &str, mode: &str| {
        format!(
            "[variants.{name}]\ncommand = [\"python3\", \"server.py\", \"{{port}}\", \"{mode}\"]\n\
             ready = \"http://127.0.0.1:{{port}}/ready\"\n"
        )
    };
    let accept = ACCEPT.replace(']', ", \"generator_limited\"]");
    let experiment = format!(
        "name = \"troubles\"\nquestion = \"What went wrong?\"\nreference = \"good\"\n\
         prediction = {{ metric = \"{metric}\", variant = \"other\", ratio_at_most = 1000 }}\n\
         [load]\nscript = \"script.js\"\n[rounds]\nblocks = 2\n{accept}\n{}{}",
        variant("good", "good"),
        variant("other", mode)
    );
    let lab = Lab::new(&experiment, script);
    std::fs::write(lab.dir().join("server.py"), SERVER).unwrap();
    lab.run("", &[])
}

const OPTIONS: &str = "export const options = { scenarios: { s: { executor: 'constant-vus', vus: 3, \
                       duration: '1500ms', gracefulStop: '500ms' } } };";

/// Its last answers were as fast as the others: only what never came tells.
#[test]
fn a_server_that_stops_answering_is_not_as_good_as_one_that_answers() {
    let script = format!(
        "import http from 'k6/http'; import {{ sleep }} from 'k6'; {OPTIONS}
         export default function () {{ http.get(__ENV.BASE_URL + '/'); sleep(0.02); }}"
    );
    let ran = run("hang", &script, "http_req_duration.p95");
    assert_eq!(ran.report["verdict"], "undecided", "{}", ran.report["sentence"]);
    assert!(ran.warns("requests of `other` were not good"), "{}", ran.report["warnings"]);
    assert!(ran.warns("no answer until the end"), "{}", ran.report["warnings"]);
    assert!(!ran.warns("requests of `good`"), "{}", ran.report["warnings"]);
}

/// What it would have asked next was never asked.
#[test]
fn a_script_that_throws_is_no_load_to_compare() {
    let script = format!(
        "import http from 'k6/http'; {OPTIONS}
         export default function () {{
           const id = http.get(__ENV.BASE_URL + '/list').json('id').toString();
           http.get(__ENV.BASE_URL + '/item/' + id);
         }}"
    );
    let ran = run("empty", &script, "goodput");
    assert_eq!(ran.report["verdict"], "undecided", "{}", ran.report["sentence"]);
    let why = ran.report["undecided_because"].as_str().unwrap();
    assert!(why.contains("the script threw"), "{why}");
    assert!(ran.warns("iterations of `other` threw"), "{}", ran.report["warnings"]);
    assert!(ran.warns("TypeError"), "{}", ran.report["warnings"]);
    assert!(!ran.warns("iterations of `good`"), "{}", ran.report["warnings"]);
}

#[test]
fn why_requests_were_not_good_is_said() {
    let script = format!(
        "import http from 'k6/http'; {OPTIONS}
         export default function () {{
           http.get(__ENV.BASE_URL + '/');
           http.get('http://127.0.0.1:9/');
         }}"
    );
    let ran = run("broken", &script, "goodput");
    assert!(ran.warns("status 500"), "{}", ran.report["warnings"]);
    assert!(ran.warns("connection refused"), "{}", ran.report["warnings"]);
}

/// A forgotten server at a fixed port would be measured in place of both variants.
#[test]
fn a_ready_address_that_answers_already_is_refused() {
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = stranger.local_addr().unwrap().port();
    let variant = format!("command = [\"sleep\", \"60\"]\nready = \"http://127.0.0.1:{port}/\"");
    let experiment = format!(
        "name = \"taken\"\nquestion = \"Whose?\"\nreference = \"one\"\n\
         prediction = {{ metric = \"goodput\", variant = \"other\", ratio_at_least = 1 }}\n\
         [load]\nscript = \"script.js\"\n[rounds]\nblocks = 1\nretries = 0\n{ACCEPT}\n\
         [variants.one]\n{variant}\n[variants.other]\n{variant}\n"
    );
    let script = "import http from 'k6/http'; export const options = { vus: 1, duration: '1s' };
                  export default function () { http.get(__ENV.BASE_URL); }";
    let ran = Lab::new(&experiment, script).run("", &[]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.warns("something answers at"), "{}", ran.report["warnings"]);
    drop(stranger);
}
