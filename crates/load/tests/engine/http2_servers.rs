//! Servers of HTTP/2 over TLS: one by the `h2` crate, and one that writes whatever frames it is given.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::Barrier;

use crate::tls::server_config;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Serial number of its connection.
    pub connection: usize,
    pub method: String,
    pub uri: String,
    /// In the order they came.
    pub headers: Vec<(String, String)>,
    pub body_bytes: usize,
}

/// Answers 200 and the path as body. Beyond that:
/// `/together/…` is answered when three such requests are open at once; `/loud` by ten mebibytes.
pub struct Http2Server {
    pub port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Http2Server {
    /// Allows so many requests of a connection at a time.
    pub fn start(max_streams: u32) -> Self {
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let log = seen.clone();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(accept(listener, max_streams, log));
        });
        Self { port, seen }
    }

    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn accept(listener: std::net::TcpListener, max_streams: u32, log: Arc<Mutex<Vec<Seen>>>) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(server_config(&[b"h2"]));
    let barrier = Arc::new(Barrier::new(3));
    for connection in 0.. {
        let (tcp, _) = listener.accept().await.unwrap();
        let (acceptor, barrier, log) = (acceptor.clone(), barrier.clone(), log.clone());
        tokio::spawn(async move {
            let Ok(tls) = acceptor.accept(tcp).await else { return };
            let mut builder = h2::server::Builder::new();
            builder.max_concurrent_streams(max_streams);
            let Ok(mut requests) = builder.handshake::<_, Bytes>(tls).await else { return };
            while let Some(Ok((request, respond))) = requests.accept().await {
                tokio::spawn(serve(request, respond, connection, barrier.clone(), log.clone()));
            }
        });
    }
}

async fn serve(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    connection: usize,
    barrier: Arc<Barrier>,
    log: Arc<Mutex<Vec<Seen>>>,
) {
    let (parts, mut body) = request.into_parts();
    let mut body_bytes = 0;
    while let Some(Ok(data)) = body.data().await {
        body_bytes += data.len();
        body.flow_control().release_capacity(data.len()).unwrap();
    }
    let path = parts.uri.path().to_owned();
    log.lock().unwrap().push(Seen {
        connection,
        method: parts.method.to_string(),
        uri: parts.uri.to_string(),
        headers: parts
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect(),
        body_bytes,
    });
    if path.starts_with("/together") {
        barrier.wait().await;
    }
    let body = if path == "/loud" { vec![b'x'; 10 << 20] } else { path.into_bytes() };
    let response = http::Response::builder().header("x-path", "yes").body(()).unwrap();
    // Whoever has gone needs no answer.
    if let Ok(mut stream) = respond.send_response(response, false) {
        let _ = stream.send_data(body.into(), true);
    }
}

/// What comes after a request.
pub enum Say {
    Write(Vec<u8>),
    WriteAndClose(Vec<u8>),
    /// Something, and then the same again and again.
    Forever(Vec<u8>, Vec<u8>),
}

/// A frame (RFC 9113 §4.1).
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A response of status 200 without a body.
pub fn ok(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0x88])
}

pub fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(3, 0, stream, &code.to_be_bytes())
}

pub fn go_away(last_stream: u32, code: u32) -> Vec<u8> {
    frame(7, 0, 0, &[last_stream.to_be_bytes(), code.to_be_bytes()].concat())
}

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// A server whose answer to a request is given by the serial number of its connection and that of its stream.
/// Returns its address.
pub fn frames(answer: impl Fn(usize, u32) -> Say + Send + Sync + 'static) -> String {
    let config = server_config(&[b"h2"]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for (connection, tcp) in listener.incoming().enumerate() {
            let session = rustls::ServerConnection::new(config.clone()).unwrap();
            let stream = rustls::StreamOwned::new(session, tcp.unwrap());
            let answer = answer.clone();
            // A client that has gone ends it.
            std::thread::spawn(move || talk(stream, |stream| answer(connection, stream)));
        }
    });
    format!("https://localhost:{port}")
}

type Tls = rustls::StreamOwned<rustls::ServerConnection, TcpStream>;

fn talk(mut tls: Tls, answer: impl Fn(u32) -> Say) -> std::io::Result<()> {
    tls.read_exact(&mut [0; b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len()])?;
    tls.write_all(&frame(SETTINGS, 0, 0, &[]))?;
    loop {
        let mut head = [0; 9];
        tls.read_exact(&mut head)?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        tls.read_exact(&mut payload)?;
        match kind {
            SETTINGS if flags == 0 => tls.write_all(&frame(SETTINGS, 1, 0, &[]))?,
            HEADERS => match answer(u32::from_be_bytes(stream)) {
                Say::Write(bytes) => tls.write_all(&bytes)?,
                Say::WriteAndClose(bytes) => {
                    tls.write_all(&bytes)?;
                    tls.conn.send_close_notify();
                    return tls.flush();
                }
                Say::Forever(first, again) => {
                    tls.write_all(&first)?;
                    loop {
                        tls.write_all(&again)?;
                    }
                }
            },
            _ => {}
        }
        tls.flush()?;
    }
}
