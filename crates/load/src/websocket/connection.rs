//! An open connection: messages in both directions, without blocking in either.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use super::deflate;
use super::frame::{Decoder, End, Incoming, Opcode, close_payload, encode};
use crate::http::{RequestError, Stream, Traffic};

const READ_BYTES: usize = 8 * 1024;

/// Pings are not answered while more than this waits to be sent: a server that sends pings and reads nothing must not
/// fill the memory. RFC 6455 §5.5.3 lets a client answer the latest one only.
const MAX_UNSENT_BEFORE_PONG: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    decoder: Decoder,
    /// `out[written..]` are the frames to write.
    out: Vec<u8>,
    written: usize,
    /// Payload bytes of the messages in `out`.
    unsent: usize,
    /// Counted here without TLS; with it, the stream counts.
    traffic: Traffic,
    is_close_sent: bool,
}

impl Connection {
    /// `rest` are the bytes after the handshake, `traffic` those of the handshake.
    pub(super) fn new(stream: Stream, rest: &[u8], traffic: Traffic, deflates: bool) -> Self {
        let mut decoder = Decoder::new(deflates);
        decoder.feed(rest);
        Self {
            stream,
            decoder,
            out: Vec::new(),
            written: 0,
            unsent: 0,
            traffic,
            is_close_sent: false,
        }
    }

    /// Queues a message for [`Self::poll_flush`].
    pub(crate) fn send(&mut self, opcode: Opcode, payload: &[u8]) -> Result<(), End> {
        if self.is_close_sent {
            return Err(End::CloseSent);
        }
        self.unsent += payload.len();
        if self.decoder.inflates && matches!(opcode, Opcode::Text | Opcode::Binary) {
            let packed = deflate::compress(payload).map_err(|e| End::Failed(e.to_string()))?;
            encode(&mut self.out, opcode, &packed, true);
        } else {
            encode(&mut self.out, opcode, payload, false);
        }
        Ok(())
    }

    /// Queues a close frame, after which nothing can be sent.
    pub(crate) fn send_close(&mut self, code: u16, text: &str) -> Result<(), End> {
        self.send(Opcode::Close, &close_payload(code, text))?;
        self.is_close_sent = true;
        Ok(())
    }

    /// Payload bytes of messages that are not completely written.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent
    }

    /// Writes everything queued.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        if self.out.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while self.written < self.out.len() {
            let part = &self.out[self.written..];
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, part));
            match written {
                Ok(0) => return Poll::Ready(Err(write_failed(io::ErrorKind::WriteZero.into()))),
                Ok(count) => {
                    self.written += count;
                    self.traffic.sent += count as u64;
                }
                Err(error) => return Poll::Ready(Err(write_failed(error))),
            }
        }
        ready!(Pin::new(&mut self.stream).poll_flush(cx)).map_err(write_failed)?;
        self.out = Vec::new();
        self.written = 0;
        self.unsent = 0;
        Poll::Ready(Ok(()))
    }

    /// The next message. Answers to pings are queued for [`Self::poll_flush`].
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Incoming, End>> {
        loop {
            match self.decoder.next() {
                Ok(Some(message)) => {
                    self.answer(&message);
                    return Poll::Ready(Ok(message));
                }
                Ok(None) => {}
                Err(end) => {
                    self.report(&end);
                    return Poll::Ready(Err(end));
                }
            }
            ready!(self.poll_read(cx))?;
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        // On the stack: an idle connection holds no buffer.
        let mut space = [const { MaybeUninit::uninit() }; READ_BYTES];
        let mut buffer = ReadBuf::uninit(&mut space);
        match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer)) {
            Ok(()) => {}
            // Counts as closed, although TLS's own farewell is missing.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) => {
                return Poll::Ready(Err(End::Failed(RequestError::Read(error).to_string())));
            }
        }
        if buffer.filled().is_empty() {
            return Poll::Ready(Err(End::eof()));
        }
        self.traffic.received += buffer.filled().len() as u64;
        self.decoder.feed(buffer.filled());
        Poll::Ready(Ok(()))
    }

    fn answer(&mut self, message: &Incoming) {
        if let Incoming::Ping(payload) = message
            && self.out.len() - self.written <= MAX_UNSENT_BEFORE_PONG
            && !self.is_close_sent
        {
            encode(&mut self.out, Opcode::Pong, payload, false);
        }
    }

    /// Sends a close frame for an error of the server, as gorilla does.
    fn report(&mut self, end: &End) {
        // Fails after a close frame of ours, which is the last word.
        let _ = match end {
            End::Protocol(message) => {
                let most = message.len().min(123);
                self.send_close(1002, &message[..most])
            }
            End::TooLarge => self.send_close(1009, ""),
            _ => Ok(()),
        };
    }

    /// Writes as much as possible without waiting, and closes. Returns the network bytes.
    pub(crate) fn finish(mut self) -> Traffic {
        let mut cx = Context::from_waker(Waker::noop());
        // Errors have no receiver any more.
        let _ = self.poll_flush(&mut cx);
        let _ = Pin::new(&mut self.stream).poll_shutdown(&mut cx);
        self.stream.take_traffic().unwrap_or(self.traffic)
    }
}

fn write_failed(error: io::Error) -> End {
    End::Failed(RequestError::Write(error).to_string())
}
