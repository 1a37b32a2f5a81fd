//! The socket of a connection, which records its waits.

use super::ConnState;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A socket that keeps its [`ConnState`] up to date.
pub(in super::super) struct WatchedStream {
    stream: TcpStream,
    state: Arc<ConnState>,
}

impl WatchedStream {
    pub(in super::super) fn new(stream: TcpStream, state: Arc<ConnState>) -> Self {
        Self { stream, state }
    }

    fn fail_if_expired(&self) -> io::Result<()> {
        if self.state.expired.load(Relaxed) { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }

    fn note_write(&self, cx: &Context<'_>, written: &Poll<io::Result<usize>>) {
        match written {
            Poll::Ready(Ok(bytes)) => self.state.write.take(*bytes, || self.state.clock.now()),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => {
                self.state.write.block(self.state.clock.now());
                self.state.wait(cx);
            }
        }
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.fail_if_expired()?;
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        match &read {
            Poll::Ready(Ok(())) if buf.filled().len() > before => {
                self.state.has_read(&buf.filled()[before..]);
            }
            Poll::Ready(_) => {}
            Poll::Pending => self.state.wait(cx),
        }
        read
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.fail_if_expired()?;
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.note_write(cx, &written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.fail_if_expired()?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.note_write(cx, &written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Called once all buffered bytes are written.
        self.state.all_is_written();
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        // Closing with unread input would reset the connection and may lose responses. The input is the rest of an
        // unread body, or follows a refused request.
        loop {
            let mut unread = [0; 4096];
            let mut unread = ReadBuf::new(&mut unread);
            match Pin::new(&mut self.stream).poll_read(cx, &mut unread) {
                Poll::Ready(Ok(())) if !unread.filled().is_empty() => self.state.leaves_unread(),
                Poll::Pending if self.state.lingers() => {
                    self.fail_if_expired()?;
                    self.state.wait(cx);
                    return Poll::Pending;
                }
                _ => return Poll::Ready(Ok(())),
            }
            self.fail_if_expired()?;
        }
    }
}
