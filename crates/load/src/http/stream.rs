//! What a connection reads from and writes to: TCP, with or without TLS.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::connection::Traffic;

/// TCP, with or without TLS over it.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    /// In a box: its session is many times the size of a socket.
    Tls(Box<TlsStream<Counted>>),
}

impl Stream {
    /// Whether the peer has been silent since the last response and has not closed. Without TLS
    /// that costs no system call unless the event loop has seen something arrive. With TLS a
    /// session ticket may arrive late: it is taken in, and is no answer.
    pub(crate) fn is_idle(&mut self) -> bool {
        let mut byte = [0];
        match self {
            Self::Plain(stream) => {
                matches!(stream.try_read(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
            }
            Self::Tls(stream) => {
                let mut cx = Context::from_waker(Waker::noop());
                let mut buffer = ReadBuf::new(&mut byte);
                Pin::new(stream).poll_read(&mut cx, &mut buffer).is_pending()
            }
        }
    }

    /// Bytes on the wire since the last call, with TLS: what k6 counts as data. `None` without,
    /// where they are the bytes of the request and the response.
    pub(crate) fn take_traffic(&mut self) -> Option<Traffic> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => Some(stream.get_ref().0.traffic.take()),
        }
    }

    /// The counter [`Self::take_traffic`] reads, for a stream that others own.
    pub(super) fn counter(&self) -> Rc<Cell<Traffic>> {
        match self {
            Self::Plain(_) => Rc::default(),
            Self::Tls(stream) => stream.get_ref().0.traffic.clone(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// Counts the bytes that go over a socket.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(super) stream: TcpStream,
    /// Shared, because HTTP/2 keeps the stream to itself.
    pub(super) traffic: Rc<Cell<Traffic>>,
}

impl Counted {
    fn add(&self, sent: usize, received: usize) {
        let mut traffic = self.traffic.get();
        traffic.sent += sent as u64;
        traffic.received += received as u64;
        self.traffic.set(traffic);
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let result = Pin::new(&mut this.stream).poll_read(cx, buffer);
        this.add(0, buffer.filled().len() - before);
        result
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(written)) = &result {
            this.add(*written, 0);
        }
        result
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
