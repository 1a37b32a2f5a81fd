//! Services and scripts in which something goes wrong without any process ending: nobody may read a verdict
//! from that, and the report says what it was.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::{fs, thread};

use crate::{ACCEPT, Lab, Ran};

/// Python that answers well, or as `MODE` says, over HTTP/1.0. Where it listens is in the file `port`.
const SERVER: &str = r#"
import http.server, os, random, sys, threading, time
mode, begun = sys.argv[2], time.time()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if mode == "hang" and self.path != "/ready" and time.time() - begun > 1:
            time.sleep(3600)
        refused = mode == "shed" and self.path == "/" and random.random() < 0.3
        body = b'{"id": 1}' if mode != "empty" else b'{"error": "none"}'
        broken = mode == "broken" and self.path != "/ready"
        self.send_response(503 if refused else 500 if broken else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer.daemon_threads = True
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
with open("port.new", "w") as file: file.write(sys.argv[1])
os.rename("port.new", "port")
server.serve_forever()
"#;

/// The good server against one of a mode.
fn run(mode: &str, script: &str, metric: &str) -> Ran {
    let ready = "http://127.0.0.1:{port}/ready";
    let lab = lab(metric, script, &server("good", ready), &server(mode, ready));
    lab.run("", &[])
}

/// The command of a server in a mode.
fn server(mode: &str, ready: &str) -> String {
    format!(
        "command = [\"python3\", \"server.py\", \"{{port}}\", \"{mode}\"]\nready = \"{ready}\"\n"
    )
}

/// Two variants, and the server beside their file.
fn lab(metric: &str, script: &str, good: &str, other: &str) -> Lab {
    let experiment = format!(
        "name = \"troubles\"\nquestion = \"What went wrong?\"\nreference = \"good\"\n\
         prediction = {{ metric = \"{metric}\", variant = \"other\", ratio_at_most = 1000 }}\n\
         [load]\nscript = \"script.js\"\n[rounds]\nblocks = 2\nwarm_up = \"0s\"\n{ACCEPT}\n\
         [variants.good]\n{good}[variants.other]\n{other}"
    );
    let lab = Lab::new(&experiment, script);
    fs::write(lab.dir().join("server.py"), SERVER).unwrap();
    lab
}

/// An iteration of a script that is content with any server.
const PLAIN: &str = "http.get(__ENV.BASE_URL + '/'); sleep(0.02);";

/// Three virtual users that do this again and again.
fn script(iteration: &str) -> String {
    format!(
        "import http from 'k6/http'; import {{ check, fail, sleep }} from 'k6';
         export const options = {{ scenarios: {{ s: {{
           executor: 'constant-vus', vus: 3, duration: '1500ms', gracefulStop: '2s' }} }} }};
         export default function () {{ {iteration} }}"
    )
}

/// Its last answers were as fast as the others: only what never came tells.
#[test]
fn a_server_that_stops_answering_is_not_as_good_as_one_that_answers() {
    let ran = run("hang", &script(PLAIN), "http_req_duration.p95");
    assert_eq!(ran.report["verdict"], "undecided", "{}", ran.report["headlines"]);
    assert!(ran.warns("requests of `other` were not good"), "{}", ran.report["warnings"]);
    assert!(ran.warns("no answer until the end"), "{}", ran.report["warnings"]);
    assert!(!ran.warns("requests of `good`"), "{}", ran.report["warnings"]);
}

/// What it would have asked next was never asked.
#[test]
fn a_script_that_throws_is_no_load_to_compare() {
    let script = script(
        "const id = http.get(__ENV.BASE_URL + '/list').json('id').toString();
         http.get(__ENV.BASE_URL + '/item/' + id);",
    );
    let ran = run("empty", &script, "goodput");
    assert_eq!(ran.report["verdict"], "undecided", "{}", ran.report["headlines"]);
    let why = ran.report["undecided_because"].as_str().unwrap();
    assert!(why.contains("the script threw"), "{why}");
    assert!(ran.warns("iterations of `other` threw"), "{}", ran.report["warnings"]);
    assert!(ran.warns("TypeError"), "{}", ran.report["warnings"]);
    assert!(!ran.warns("iterations of `good`"), "{}", ran.report["warnings"]);
}

/// What it did not ask after a 503 is what a real user would not have asked.
#[test]
fn a_script_that_gives_up_after_a_refusal_is_still_a_load_to_compare() {
    let script = script(
        "sleep(0.02);
         const got = http.get(__ENV.BASE_URL + '/');
         if (!check(got, { 'is there': (got) => got.status === 200 })) fail('refused');
         http.get(__ENV.BASE_URL + '/more');",
    );
    // Others may keep the generator waiting, so that it is called the limit; they do not every time.
    let ran = (0..5).map(|_| run("shed", &script, "goodput")).find(|ran| {
        assert_ne!(ran.report["verdict"], "refuted", "{}", ran.report["headlines"]);
        ran.report["verdict"] == "supported"
    });
    let ran = ran.expect("others were in the way every time");
    assert!(ran.warns("status 503"), "{}", ran.report["warnings"]);
    assert!(ran.warns("iterations of `other` threw: "), "{}", ran.report["warnings"]);
    assert!(!ran.warns("the script threw"), "{}", ran.report["warnings"]);
}

#[test]
fn why_requests_were_not_good_is_said() {
    let script = script("http.get(__ENV.BASE_URL + '/'); http.get('http://127.0.0.1:9/');");
    let ran = run("broken", &script, "goodput");
    assert!(ran.warns("status 500"), "{}", ran.report["warnings"]);
    assert!(ran.warns("connection refused"), "{}", ran.report["warnings"]);
}

/// A forgotten server at a fixed port would be measured in place of both variants.
#[test]
fn a_ready_address_that_answers_already_is_refused() {
    let (stranger, ready) = listen();
    serve(stranger, |client| answer(client, "200 OK"));
    let variant = server("good", &ready);
    let ran = lab("goodput", &script(PLAIN), &variant, &variant).run("", &[]);
    assert_eq!(ran.code, Some(1), "no fault of the system under test");
    let taken = "as if it were ready before the server is started";
    assert!(ran.warns(taken), "{}", ran.report["warnings"]);
}

/// A proxy that stays, such as an nginx, says 503 until there is somebody behind it.
#[test]
fn a_front_that_waits_for_the_server_is_measured_with_it() {
    let (front, ready) = listen();
    let variant = server("good", &ready);
    let lab = lab("goodput", &script(PLAIN), &variant, &variant);
    let dir = lab.dir().to_owned();
    serve(front, move |client| pass_on(client, &dir));
    let ran = lab.run("", &[]);
    // Others may keep the generator waiting, so that no verdict is given.
    assert!(matches!(ran.code, Some(0 | 3)), "{:#}", ran.report);
    assert_eq!(ran.rounds().count(), 4, "{:#}", ran.report);
    assert!(ran.rounds().all(|round| round["load"]["requests"]["good"].as_u64() > Some(0)));
}

/// Somewhere to listen, and an address there.
fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ready = format!("http://{}/ready", listener.local_addr().unwrap());
    (listener, ready)
}

/// Takes connections until the tests end. What goes wrong with one is the client's to tell.
fn serve(
    listener: TcpListener,
    each: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static,
) {
    let each = Arc::new(each);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let each = Arc::clone(&each);
            thread::spawn(move || each(client));
        }
    });
}

fn answer(mut client: TcpStream, status: &str) -> io::Result<()> {
    // One request is short and comes at once.
    let _length = client.read(&mut [0; 4096])?;
    write!(client, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

/// One request to the server that `port` in the directory names, and its answer.
fn pass_on(mut client: TcpStream, dir: &Path) -> io::Result<()> {
    let port = fs::read_to_string(dir.join("port")).unwrap_or_default();
    let Ok(mut server) = TcpStream::connect(format!("127.0.0.1:{port}")) else {
        return answer(client, "503 Service Unavailable");
    };
    let mut request = [0; 4096];
    let length = client.read(&mut request)?;
    server.write_all(&request[..length])?;
    io::copy(&mut server, &mut client).map(drop)
}
