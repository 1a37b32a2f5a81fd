//! A small language for tests: a server that says anything, a script, what came of it.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use madang_load::report::Report;
use madang_load::{Config, ExitStatus, Layer, Messages, run};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Barrier;

/// A request as it came over the wire.
#[derive(Debug, Clone)]
pub struct Request {
    /// Serial number of its connection.
    pub connection: u64,
    /// Method and target, `GET /path`.
    pub line: String,
    /// Head as text, with the request line.
    pub head: String,
    pub body: String,
}

impl Request {
    pub fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let prefix = format!("{}:", name.to_ascii_lowercase());
        let line = self.head.lines().find(|line| line.to_ascii_lowercase().starts_with(&prefix))?;
        line.split_once(':').map(|(_, value)| value.trim())
    }
}

/// What the server does with a request.
pub enum Answer {
    /// Writes these bytes and waits for the next request.
    Send(Vec<u8>),
    /// Writes these bytes and closes.
    SendAndClose(Vec<u8>),
    /// Writes them after so long.
    SendAfter(Duration, Vec<u8>),
    /// Writes them when as many requests as the barrier is for wait for their answers.
    SendTogether(Arc<Barrier>, Vec<u8>),
    /// Never answers.
    Hang,
}

/// `200 OK` with a body.
pub fn ok(body: &str) -> Answer {
    response("200 OK", "", body)
}

pub fn response(status: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    Answer::Send(
        format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\n\r\n{body}")
            .into_bytes(),
    )
}

/// A real HTTP server on a free port; ends with the test's process.
pub struct Server {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub fn start(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let seen: Arc<Mutex<Vec<Request>>> = Arc::default();
        let log = seen.clone();
        let answer = Arc::new(answer);
        let address = serve(move |mut stream, connection| {
            let (answer, log) = (answer.clone(), log.clone());
            async move {
                while let Some(request) = read_request(&mut stream, connection).await {
                    log.lock().unwrap().push(request.clone());
                    let (bytes, close) = match answer(&request) {
                        Answer::Send(bytes) => (bytes, false),
                        Answer::SendAndClose(bytes) => (bytes, true),
                        Answer::SendAfter(pause, bytes) => {
                            tokio::time::sleep(pause).await;
                            (bytes, false)
                        }
                        Answer::SendTogether(all, bytes) => {
                            all.wait().await;
                            (bytes, false)
                        }
                        Answer::Hang => return std::future::pending().await,
                    };
                    if stream.write_all(&bytes).await.is_err() || close {
                        return;
                    }
                }
            }
        });
        Self { address, seen }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }
}

/// An address at which nobody listens. While the socket lives, nobody is given its port; a server that names it and sets
/// `SO_REUSEADDR` can listen there.
pub fn reserve_port() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// Accepts connections on a thread of its own.
fn serve<F>(handle: impl Fn(TcpStream, u64) -> F + Send + Sync + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            let connections = AtomicU64::new(0);
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(handle(stream, connections.fetch_add(1, Ordering::Relaxed)));
            }
        });
    });
    address
}

async fn read_request(stream: &mut TcpStream, connection: u64) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let line = head.lines().next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let mut request = Request { connection, line, head, body: String::new() };
    let length: usize =
        request.header("content-length").map_or(0, |length| length.parse().unwrap());
    while bytes.len() < end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    // What is pushed to some servers is no text.
    request.body = String::from_utf8_lossy(&bytes[end..end + length]).into_owned();
    Some(request)
}

/// A script and how to run it.
pub struct Script {
    directory: tempfile::TempDir,
    pub config: Config,
}

/// What a run came to.
pub struct Ran {
    pub status: ExitStatus,
    report: Option<Report>,
    pub messages: Vec<String>,
    /// The document of `--summary-export`, if it was written.
    pub export: Option<serde_json::Value>,
}

impl Ran {
    pub fn report(&self) -> &Report {
        self.report.as_ref().unwrap_or_else(|| panic!("no report; messages: {:?}", self.messages))
    }

    /// The check of that name: (passes, fails).
    pub fn check(&self, name: &str) -> (u64, u64) {
        let check = self.report().checks.iter().find(|check| check.name == name);
        check.map_or((0, 0), |check| (check.passes, check.fails))
    }

    /// The run went well, and so did every check.
    pub fn assert_all_checks_passed(&self) {
        assert_eq!(self.status, ExitStatus::Success, "{:?}", self.messages);
        assert!(!self.report().checks.is_empty(), "nothing was checked: {:?}", self.messages);
        for check in &self.report().checks {
            assert_eq!((check.fails, check.passes > 0), (0, true), "{check:?} {:?}", self.messages);
        }
    }

    pub fn said(&self, text: &str) -> bool {
        self.messages.iter().any(|message| message.contains(text))
    }
}

impl Script {
    /// A script; `URL` in it is `__ENV.URL`.
    pub fn new(text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = Config {
            script: directory.path().join("script.js"),
            quiet: true,
            no_summary: true,
            ..Config::default()
        };
        let script = Self { directory, config };
        script.file("script.js", text)
    }

    /// The body of a default function with the usual imports, run once.
    pub fn body(text: &str) -> Self {
        Self::new(&format!(
            "import http from 'k6/http';
             import {{ check, group, sleep, fail }} from 'k6';
             const URL = __ENV.URL;
             export default function () {{ {text} }}"
        ))
    }

    /// Another file beside the script.
    pub fn file(self, name: &str, text: &str) -> Self {
        std::fs::write(self.path(name), text).unwrap();
        self
    }

    /// A file in a directory beside the script.
    pub fn file_in(self, directory: &str, name: &str, text: &str) -> Self {
        std::fs::create_dir_all(self.path(directory)).unwrap();
        self.file(&format!("{directory}/{name}"), text)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn against(mut self, server: &Server) -> Self {
        self.config.environment.insert("URL".to_owned(), server.url(""));
        self
    }

    pub fn options(mut self, overrides: Layer) -> Self {
        self.config.overrides = overrides;
        self
    }

    pub fn constant_vus(self, vus: u32, duration: Duration) -> Self {
        self.options(Layer { vus: Some(vus), duration: Some(duration), ..Layer::default() })
    }

    pub fn run(self) -> Ran {
        self.run_and_keep(|| ())
    }

    /// Runs, and looks at what was written before it is removed.
    pub fn run_and_keep(mut self, look: impl FnOnce()) -> Ran {
        let ran = self.run_once();
        look();
        ran
    }

    /// Runs; it can be run again.
    pub fn run_once(&mut self) -> Ran {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        self.config.messages = Messages::Keep(lines.clone());
        let export = self.path("export.json");
        self.config.summary_export = Some(export.clone());
        let outcome = run(&self.config);
        let export = std::fs::read_to_string(export).ok();
        let messages = lines.lock().unwrap().clone();
        Ran {
            status: outcome.status,
            report: outcome.report,
            messages,
            export: export.map(|text| serde_json::from_str(&text).unwrap()),
        }
    }
}

/// An environment of one variable.
pub fn variable(name: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(name.to_owned(), value.to_owned())])
}
