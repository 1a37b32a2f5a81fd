//! A server that keeps every byte of its requests, and answers by path.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

pub struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// On a free port; ends with the test's process.
    pub fn start() -> Self {
        Self::start_with(None)
    }

    /// Stands for any server: with and without TLS at one port; answers by JSON what it does not know.
    pub fn of_anything() -> Self {
        Self::start_with(Some(crate::secure::config(rustls::ALL_VERSIONS, &[], "localhost")))
    }

    fn start_with(secure: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, log, secure) = (stream.unwrap(), log.clone(), secure.clone());
                std::thread::spawn(move || serve(stream, &log, secure));
            }
        });
        Self { address, seen }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Where requests to servers beside this one are kept, too.
    pub fn log(&self) -> &Arc<Mutex<Vec<String>>> {
        &self.seen
    }

    /// The requests so far, each as its bytes, with fixed texts for what differs from run to run.
    pub fn requests(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let port = format!(":{}\r\n", self.address.port());
        let fixed = |text: &String| {
            settled(&text.replace(&self.address.to_string(), "HOST").replace(&port, ":PORT\r\n"))
        };
        seen.iter().map(fixed).collect()
    }
}

/// Without the random parts of forms and of answers to challenges.
fn settled(text: &str) -> String {
    let mut text = text.to_owned();
    // Which k6 sends to a proxy whatever the options say.
    if text.starts_with("CONNECT ") {
        text = text.replace("User-Agent: Go-http-client/1.1", "User-Agent: k6");
    }
    if let Some(at) = text.find("boundary=") {
        let boundary: String =
            text[at + 9..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        let length = format!(
            "Content-Length: {}",
            text.split("\r\n\r\n").skip(1).collect::<Vec<_>>().join("\r\n\r\n").len()
        );
        text = text.replace(&boundary, "BOUNDARY").replace(&length, "Content-Length: N");
    }
    // Whose parts have no order.
    if let Some(at) = text.find("Authorization: Digest ") {
        let from = at + "Authorization: Digest ".len();
        let to = from + text[from..].find("\r\n").unwrap_or(0);
        let mut parts: Vec<_> = text[from..to].split(", ").collect();
        parts.sort_unstable();
        let parts = parts.join(", ");
        text.replace_range(from..to, &parts);
    }
    if let Some(at) = text.find("Sec-WebSocket-Key: ") {
        let from = at + "Sec-WebSocket-Key: ".len();
        text.replace_range(from..from + 24, "RANDOM");
    }
    for name in ["cnonce=\"", "response=\""] {
        if let Some(at) = text.find(name) {
            let from = at + name.len();
            let to = from + text[from..].find('"').unwrap_or(0);
            text.replace_range(from..to, "RANDOM");
        }
    }
    text
}

/// The first byte of a handshake of TLS.
const HANDSHAKE: u8 = 22;

fn serve(stream: TcpStream, log: &Mutex<Vec<String>>, secure: Option<Arc<ServerConfig>>) {
    let anything = secure.is_some();
    if let Some(config) = secure {
        let mut first = [0];
        if stream.peek(&mut first).is_err() {
            return;
        }
        if first[0] == HANDSHAKE {
            let connection = ServerConnection::new(config).unwrap();
            // No WebSockets there.
            let _ = answer_all(BufReader::new(StreamOwned::new(connection, stream)), log, anything);
            return;
        }
    }
    if let Some((reader, target, key)) = answer_all(BufReader::new(&stream), log, anything) {
        crate::sockets::serve(reader, &target, &key, log);
    }
}

/// Until the connection is to be a WebSocket: then also gives its address and key.
fn answer_all<S: Read + Write>(
    mut reader: BufReader<S>,
    log: &Mutex<Vec<String>>,
    anything: bool,
) -> Option<(BufReader<S>, String, String)> {
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if !matches!(reader.read_line(&mut head), Ok(1..)) {
                return None;
            }
        }
        let header = |name: &str| {
            let line = head.lines().find(|line| {
                line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
            });
            line.map(|line| line[name.len()..].trim_start_matches([':', ' ']).to_owned())
        };
        let length = header("content-length").map_or(0, |text| text.parse().unwrap());
        // The only chunks that come are those of an empty body.
        let chunks = if header("transfer-encoding").is_some() { b"0\r\n\r\n".len() } else { 0 };
        let mut body = vec![0; length + chunks];
        if reader.read_exact(&mut body).is_err() {
            return None;
        }
        let body = String::from_utf8_lossy(&body).into_owned();
        log.lock().unwrap().push(format!("{head}{body}"));
        let target = head.split(' ').nth(1).unwrap_or_default();
        // A proxy is asked for a whole address.
        let target = target
            .strip_prefix("http://")
            .map_or(target, |rest| rest.find('/').map_or("/", |at| &rest[at..]));
        let target = target.to_owned();
        if let Some(key) =
            header("sec-websocket-key").filter(|_| anything || target.starts_with("/ws"))
        {
            return Some((reader, target, key));
        }
        let mut answer =
            answer(&target, header("authorization").as_deref(), header("cookie").as_deref());
        if anything && answer.ends_with("\r\n\r\nok") {
            answer = ANYTHING.to_owned();
        }
        let is_head = head.starts_with("HEAD ");
        let answer = if is_head {
            answer.split_inclusive("\r\n\r\n").next().unwrap_or_default()
        } else {
            &answer
        };
        let stream = reader.get_mut();
        if stream.write_all(answer.as_bytes()).and_then(|()| stream.flush()).is_err() {
            return None;
        }
    }
}

/// With what scripts most often look for.
const ANYTHING: &str = concat!(
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 139\r\n\r\n",
    r#"{"id":1,"token":"t","access":"t","access_token":"t","name":"n","status":"ok","#,
    r#""success":true,"data":{"id":1,"token":"t"},"items":[{"id":1}]}"#
);

const SEARCH: &str = r##"<form action="/find?x=1#y"><input name=q value="1 2"><input type=checkbox name=c checked="checked">
<input type=submit name=s value=Go></form><a href="/first?a=1#b">1</a><a id=rel href="deep/../two">2</a><a href="?only">3</a>
<form method=post><select name=m multiple><option selected>1<option selected>2</select><textarea name=t>
a</textarea></form>"##;

fn answer(target: &str, authorization: Option<&str>, cookie: Option<&str>) -> String {
    let path = target.split('?').next().unwrap_or_default();
    let with = |status: &str, headers: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
    };
    let html = "Content-Type: text/html; charset=utf-8\r\n";
    let json = "Content-Type: application/json\r\nX-Custom: one\r\nX-Custom: two\r\n";
    if path == "shop.example:443" || path == "shop.example:80" {
        return with("403 Forbidden", "", "");
    }
    match path.trim_start_matches('/').split('/').collect::<Vec<_>>()[..] {
        ["status", code] => with(&format!("{code} Some Status"), "", "a body"),
        ["redirect", "0"] => with("200 OK", "", "arrived"),
        ["redirect", left] => {
            let next = left.parse::<u32>().unwrap_or(1) - 1;
            with("302 Found", &format!("Location: /redirect/{next}\r\n"), "")
        }
        ["cookies", "set"] => {
            let set = "Set-Cookie: a=1; Path=/\r\nSet-Cookie: b=two; Path=/cookies; HttpOnly\r\n";
            with("200 OK", set, cookie.unwrap_or("none"))
        }
        ["cookies", ..] => with("200 OK", "", cookie.unwrap_or("none")),
        ["html"] => with("200 OK", html, "<html><body><h1>A title</h1></body></html>"),
        ["pages", "all"] => with("200 OK", html, include_str!("scripts/lib/page.html")),
        ["pages", "search"] => with("200 OK", html, SEARCH),
        ["json"] => {
            let body =
                r#"{"a":{"b":[1,2,{"c":"d"}]},"text":"한글","none":null,"yes":true,"number":1.5}"#;
            with("200 OK", json, body)
        }
        ["json", "twice"] => {
            let body =
                r#"{"a":1,"a":2,"b":[{"k":1,"k":2},{"k":3}],"undefined":4,"\u0061":5,"5":6}"#;
            with("200 OK", json, body)
        }
        ["digest"] if authorization.is_some_and(|text| text.starts_with("Digest ")) => {
            with("200 OK", "", "in")
        }
        ["digest"] => {
            let challenge = "WWW-Authenticate: Digest realm=\"r\", nonce=\"n\", qop=\"auth\"\r\n";
            with("401 Unauthorized", challenge, "")
        }
        _ => with("200 OK", "Content-Type: text/plain\r\n", "ok"),
    }
}
