//! An HTTP/1.1 connection: writes a request, reads its response.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::body::ChunkedDecoder;
use super::head::{Framing, Head};
use super::stream::Stream;
use super::timings::Trace;
use super::tls::{self, Offer, Tls, TlsInfo};
use super::{RequestError, Result, Url};

/// Limit of the TCP handshake; that of k6's dialer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Free space offered to one read.
const READ_BYTES: usize = 8 * 1024;

const MAX_BODY_BYTES: usize = 256 * 1024 * 1024;

/// Limit of all informational heads before one response; Go's limit of a response's headers.
const MAX_INFORMATIONAL_BYTES: usize = 10 * 1024 * 1024;

/// Space reserved for an announced `Content-Length` before data arrives.
const TRUSTED_BODY_BYTES: u64 = 1024 * 1024;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traffic {
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

impl Traffic {
    pub(crate) fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.received += other.received;
    }
}

pub(super) struct Progress<'a> {
    pub(super) trace: &'a mut Trace,
    pub(super) traffic: &'a mut Traffic,
    /// The response has no body, whatever its headers announce.
    pub(super) to_head_request: bool,
    pub(super) discard_body: bool,
    /// See [`ClientConfig`](super::ClientConfig).
    pub(super) skips_success: bool,
}

impl<'a> Progress<'a> {
    pub(super) fn new(trace: &'a mut Trace, traffic: &'a mut Traffic) -> Self {
        let (to_head_request, discard_body, skips_success) = Default::default();
        Self { trace, traffic, to_head_request, discard_body, skips_success }
    }
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
    pub(super) reusable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// `None` without TLS.
    pub(crate) tls: Option<TlsInfo>,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) peer: Peer,
    /// Bytes read and not yet consumed are `buffer[start..]`.
    buffer: Vec<u8>,
    start: usize,
}

#[derive(Debug)]
pub(super) struct Dialled {
    pub(super) stream: Stream,
    pub(super) peer: Peer,
    pub(super) http2: bool,
}

/// Connects to the first reachable address and returns it. The addresses share the time limit, as in Go.
pub(super) async fn connect(
    addresses: &[SocketAddr],
    trace: &mut Trace,
) -> Result<(TcpStream, SocketAddr)> {
    let start = Instant::now();
    let patience = CONNECT_TIMEOUT / addresses.len().max(1) as u32;
    let mut failed = RequestError::NoSuchHost;
    for &address in addresses {
        let connected = tokio::time::timeout(patience, TcpStream::connect(address)).await;
        match connected {
            Ok(Ok(stream)) => {
                // Requests are written whole; waiting for more would only delay them.
                stream.set_nodelay(true).map_err(RequestError::Connect)?;
                trace.timings.connecting = start.elapsed();
                return Ok((stream, address));
            }
            Ok(Err(error)) => failed = RequestError::Connect(error),
            Err(_) => failed = RequestError::ConnectTimeout,
        }
    }
    Err(failed)
}

pub(super) async fn secure(
    url: &Url,
    stream: TcpStream,
    address: SocketAddr,
    tls: &Tls,
    offer: Offer,
    trace: &mut Trace,
) -> Result<Dialled> {
    if !url.secure {
        let peer = Peer { address, tls: None };
        return Ok(Dialled { stream: Stream::Plain(stream), peer, http2: false });
    }
    let start = Instant::now();
    let dialled = tls.handshake(url, stream, address, offer).await?;
    trace.timings.tls_handshaking = start.elapsed();
    Ok(dialled)
}

impl Connection {
    pub(super) fn new(stream: Stream, peer: Peer) -> Self {
        Self { stream, peer, buffer: Vec::new(), start: 0 }
    }

    /// Writes a request and reads its response.
    ///
    /// # Errors
    /// The first failure; the connection must then be dropped.
    pub(super) async fn exchange(
        &mut self,
        head: &[u8],
        body: &[u8],
        progress: &mut Progress<'_>,
    ) -> Result<Response> {
        let written = self.write(head, body, progress.traffic).await;
        progress.trace.sent = Some(Instant::now());
        let read = self.read_response(progress).await;
        if let Some(traffic) = self.stream.take_traffic() {
            *progress.traffic = traffic;
        }
        match (read, written) {
            (Ok(response), Ok(())) => Ok(response),
            (Ok(response), Err(_)) => Ok(Response { reusable: false, ..response }),
            // A server may refuse a body by responding and closing: a failed write matters only without a response.
            (Err(_), Err(error)) | (Err(error), Ok(())) => Err(error),
        }
    }

    pub(super) async fn write(
        &mut self,
        head: &[u8],
        body: &[u8],
        traffic: &mut Traffic,
    ) -> Result<()> {
        for mut part in [head, body] {
            while !part.is_empty() {
                let written = self.stream.write(part).await;
                let written = written.map_err(|error| failed(error, RequestError::Write))?;
                if written == 0 {
                    return Err(RequestError::Write(io::ErrorKind::WriteZero.into()));
                }
                traffic.sent += written as u64;
                part = &part[written..];
            }
        }
        self.stream.flush().await.map_err(|error| failed(error, RequestError::Write))
    }

    async fn read_response(&mut self, progress: &mut Progress<'_>) -> Result<Response> {
        let head = self.read_head(progress).await?;
        if head.status == 101 {
            return Err(RequestError::Malformed("switched protocols unasked"));
        }
        let framing = head.framing(progress.to_head_request)?;
        if progress.skips_success
            && framing == Framing::UntilClose
            && matches!(head.status, 200..=299)
        {
            return Ok(Response { head, body: Vec::new(), reusable: false });
        }
        let mut sink = BodySink::new(progress.discard_body);
        if let Framing::Length(length) = framing {
            sink.expect(length)?;
        }
        self.read_body(framing, &mut sink, u64::MAX, progress).await?;
        // Bytes beyond the response belong to no request: such a connection is not reused.
        let reusable =
            head.keeps_alive() && framing != Framing::UntilClose && self.start == self.buffer.len();
        if self.start == self.buffer.len() {
            // Every virtual user has a connection, and most are idle.
            self.buffer = Vec::new();
            self.start = 0;
        }
        Ok(Response { head, body: sink.body, reusable })
    }

    /// Reads a final head, or that of a switch to another protocol; other informational ones (RFC 9110 §15.2) are
    /// skipped.
    pub(super) async fn read_head(&mut self, progress: &mut Progress<'_>) -> Result<Head> {
        let mut informational = 0;
        loop {
            if self.start < self.buffer.len()
                && let Some((head, length)) = Head::parse(&self.buffer[self.start..])?
            {
                self.start += length;
                if !matches!(head.status, 100 | 102..200) {
                    return Ok(head);
                }
                informational += length;
                if informational > MAX_INFORMATIONAL_BYTES {
                    return Err(RequestError::HeadTooLarge(MAX_INFORMATIONAL_BYTES));
                }
                continue;
            }
            // Every read may end inside a head; the buffer would then never be empty.
            self.buffer.drain(..self.start);
            self.start = 0;
            let before = self.buffer.len() - self.start;
            if self.fill(progress).await? == 0 {
                return Err(if before == 0 {
                    RequestError::ClosedBeforeResponse
                } else {
                    RequestError::ClosedInsideResponse
                });
            }
        }
    }

    /// Reads once into the buffer; 0 means that the peer has closed.
    async fn fill(&mut self, progress: &mut Progress<'_>) -> Result<usize> {
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
        }
        self.buffer.reserve(READ_BYTES);
        let read = match self.stream.read_buf(&mut self.buffer).await {
            // A close without close_notify of TLS: the length shows whether something is missing (RFC 9112 §9.8).
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            read => read.map_err(|error| failed(error, RequestError::Read))?,
        };
        progress.traffic.received += read as u64;
        if progress.trace.first_byte.is_none() && read > 0 {
            progress.trace.first_byte = Some(Instant::now());
        }
        Ok(read)
    }

    /// The stream, its peer, and the bytes read but not consumed.
    pub(super) fn into_parts(mut self) -> (Stream, Peer, Vec<u8>) {
        (self.stream, self.peer, self.buffer.split_off(self.start))
    }

    /// Reads a body, or at least `enough` bytes of it.
    pub(super) async fn read_body(
        &mut self,
        framing: Framing,
        sink: &mut BodySink,
        enough: u64,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let mut decoder = ChunkedDecoder::new();
        loop {
            let available = &self.buffer[self.start..];
            let used = match framing {
                Framing::None => return Ok(()),
                Framing::Length(length) => {
                    let left = usize::try_from(length - sink.length).unwrap_or(usize::MAX);
                    let take = left.min(available.len());
                    sink.take(&available[..take])?;
                    take
                }
                Framing::Chunked => decoder.decode(available, |data| sink.take(data))?,
                Framing::UntilClose => {
                    sink.take(available)?;
                    available.len()
                }
            };
            self.start += used;
            let is_whole = match framing {
                Framing::Length(length) => sink.length == length,
                _ => decoder.is_done(),
            };
            if is_whole || sink.length >= enough {
                return Ok(());
            }
            if self.fill(progress).await? == 0 {
                return match framing {
                    Framing::UntilClose => Ok(()),
                    _ => Err(RequestError::ClosedInsideResponse),
                };
            }
        }
    }
}

/// An error of TLS, or else `other`.
fn failed(error: io::Error, other: fn(io::Error) -> RequestError) -> RequestError {
    let is_tls =
        error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>);
    if is_tls { tls::failed(&error) } else { other(error) }
}

pub(super) struct BodySink {
    pub(super) body: Vec<u8>,
    length: u64,
    discard: bool,
}

impl BodySink {
    /// With `discard`, bytes are counted and not kept.
    pub(super) fn new(discard: bool) -> Self {
        Self { body: Vec::new(), length: 0, discard }
    }

    pub(super) fn expect(&mut self, length: u64) -> Result<()> {
        if self.discard {
            return Ok(());
        }
        if length > MAX_BODY_BYTES as u64 {
            return Err(RequestError::BodyTooLarge(MAX_BODY_BYTES));
        }
        self.body.reserve_exact(length.min(TRUSTED_BODY_BYTES) as usize);
        Ok(())
    }

    pub(super) fn take(&mut self, data: &[u8]) -> Result<()> {
        self.length += data.len() as u64;
        if self.discard {
            return Ok(());
        }
        if self.length > MAX_BODY_BYTES as u64 {
            return Err(RequestError::BodyTooLarge(MAX_BODY_BYTES));
        }
        self.body.extend_from_slice(data);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the head after `informational` bytes of informational heads; also returns the size of the buffer.
    async fn read_after(informational: usize) -> (Result<Head>, usize) {
        const HINT: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let many = HINT.repeat(1000);
            for _ in 0..=informational / many.len() {
                // The client may have given up.
                let _ = stream.write_all(&many).await;
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        };
        let read = async {
            let stream = TcpStream::connect(address).await.unwrap();
            let mut connection =
                Connection::new(Stream::Plain(stream), Peer { address, tls: None });
            let (mut trace, mut traffic) = (Trace::begin(), Traffic::default());
            let head = connection.read_head(&mut Progress::new(&mut trace, &mut traffic)).await;
            (head, connection.buffer.capacity())
        };
        let (read, ()) = tokio::join!(read, serve);
        read
    }

    #[tokio::test]
    async fn an_address_that_cannot_be_reached_is_followed_by_the_next() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap();
        // Bound, without a listener.
        let reserved = tokio::net::TcpSocket::new_v4().unwrap();
        reserved.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let dead = reserved.local_addr().unwrap();
        let trace = &mut Trace::begin();
        assert_eq!(connect(&[dead, open], trace).await.unwrap().1, open);
        assert_eq!(connect(&[dead], trace).await.unwrap_err().code().0, 1212);
    }

    #[tokio::test]
    async fn informational_heads_are_not_kept_and_not_read_for_ever() {
        let (head, kept) = read_after(MAX_INFORMATIONAL_BYTES / 2).await;
        assert_eq!(head.unwrap().status, 200);
        assert!(kept < 1024 * 1024, "{kept} bytes");
        let (head, _) = read_after(MAX_INFORMATIONAL_BYTES).await;
        let error = head.unwrap_err().to_string();
        let as_in_k6 = "net/http: server response headers exceeded 10485760 bytes; aborted";
        assert_eq!(error, as_in_k6);
    }
}
