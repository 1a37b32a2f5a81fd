//! TCP streams, with or without TLS.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::connection::Traffic;

#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    /// Boxed: a TLS session is many times the size of a socket.
    Tls(Box<TlsStream<Counted>>),
}

impl Stream {
    /// True if the connection is open and the peer has sent nothing since the last response. Without TLS this costs no
    /// system call unless the event loop has seen data arrive. With TLS a late session ticket is consumed and ignored.
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

    /// Bytes on the wire since the last call, as k6 counts them; `None` without TLS, where the caller counts.
    pub(crate) fn take_traffic(&mut self) -> Option<Traffic> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => Some(stream.get_ref().0.traffic.take()),
        }
    }

    /// The counter that [`Self::take_traffic`] reads, for a stream owned by others.
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

#[derive(Debug)]
pub(crate) struct Counted {
    pub(super) stream: TcpStream,
    /// Shared, because the HTTP/2 connection owns the stream.
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
