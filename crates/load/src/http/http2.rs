//! An HTTP/2 connection (RFC 9113), shared by the requests of a virtual user.
//!
//! The `h2` crate handles the frames; a task of the event loop reads and writes them, so that pings are answered and
//! GOAWAY is seen between requests too. A server is limited in
//!
//! - the header list: 256 KiB, announced and enforced, as for HTTP/1.1;
//! - bodies: windows as large as Go's, and the size limit of HTTP/1.1;
//! - frames that cost the sender little (CONTINUATION, empty DATA, RST_STREAM): `h2` counts them and closes the
//!   connection;
//! - bytes while no request is open: the connection is closed after [`MAX_IDLE_BYTES`]. A request has its timeout;
//! - pings whose replies the server does not read: nothing is read while the socket has no room for them.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use tokio::task::AbortHandle;

use super::RequestError;
use super::connection::{BodySink, Peer, Progress, Response, Traffic};
use super::error::{Http2Error, Http2Scope};
use super::head::{Head, MAX_HEAD_BYTES};
use super::outgoing::OutgoingHead;
use super::stream::Stream;
use super::timings::Trace;

/// Flow-control window of a response; Go's number.
const STREAM_WINDOW: u32 = 4 << 20;

/// Flow-control window of the connection; Go's number.
const CONNECTION_WINDOW: u32 = 1 << 30;

/// Concurrent requests until the server announces a limit; Go's number.
const FIRST_MAX_STREAMS: usize = 100;

/// Limit of concurrent requests, whatever the server allows; Go's number.
const MAX_STREAMS: usize = 1000;

/// Cancelled responses whose late frames are recognised.
const MAX_RESET_STREAMS: usize = 256;

/// Bytes a server may send while no request is open: more than one window, because a cancelled response may still be in
/// flight.
const MAX_IDLE_BYTES: u64 = 2 * STREAM_WINDOW as u64;

/// Limit of the sum over unread DATA frames of their bytes below 256: a quarter of a million frames of one byte. The
/// default follows the window of the connection and is 512 MiB.
const SMALL_FRAMES_BYTES: usize = 64 << 20;

type Frames = h2::client::Connection<Stream, Bytes>;

/// A handle to a connection, which closes with the last handle.
#[derive(Clone)]
pub(super) struct Http2(Rc<Shared>);

struct Shared {
    sender: RefCell<SendRequest<Bytes>>,
    wire: Rc<Wire>,
    peer: Peer,
    retired: Cell<bool>,
    task: AbortHandle,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.task.abort();
        self.wire.close();
    }
}

impl Http2 {
    pub(super) async fn start(stream: Stream, peer: Peer) -> Result<Self, RequestError> {
        let traffic = stream.counter();
        let (sender, frames) = Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_max_send_streams(FIRST_MAX_STREAMS)
            .max_header_list_size(MAX_HEAD_BYTES as u32)
            .max_concurrent_reset_streams(MAX_RESET_STREAMS)
            .data_frame_budget(SMALL_FRAMES_BYTES)
            .handshake(stream)
            .await
            .map_err(|error| {
                RequestError::Write(error.into_io().unwrap_or_else(|| io::ErrorKind::Other.into()))
            })?;
        let wire = Rc::new(Wire {
            frames: RefCell::new(Some(frames)),
            waker: RefCell::new(Waker::noop().clone()),
            failure: Cell::default(),
            traffic,
            open_streams: Cell::default(),
        });
        let driven = wire.clone();
        let task = tokio::task::spawn_local(poll_fn(move |cx| driven.drive(cx)));
        Ok(Self(Rc::new(Shared {
            sender: RefCell::new(sender),
            wire,
            peer,
            retired: Cell::new(false),
            task: task.abort_handle(),
        })))
    }

    pub(super) fn peer(&self) -> Peer {
        self.0.peer
    }

    /// True if requests may be sent, now or later.
    pub(super) fn is_open(&self) -> bool {
        !self.0.retired.get()
            && self.0.wire.frames.borrow().is_some()
            && self.0.closing_error().is_none()
    }

    /// True if a request may be sent now; if not, another connection is opened, as in Go.
    pub(super) fn has_room(&self) -> bool {
        let limit = self.0.sender.borrow().current_max_send_streams();
        self.0.wire.open_streams.get() < limit.min(MAX_STREAMS)
    }

    /// Sends a request and reads its response.
    ///
    /// # Errors
    /// The first failure. A request that fails with one that `is_unprocessed` may be sent again.
    pub(super) async fn exchange(
        &self,
        head: &OutgoingHead<'_>,
        body: &[u8],
        progress: &mut Progress<'_>,
    ) -> Result<Response, RequestError> {
        let Progress { trace, traffic, to_head_request, discard_body, .. } = progress;
        let request = head.to_http2()?;
        let _open = OpenStream::new(&self.0, traffic);
        let mut sender = self.0.sender.borrow().clone();
        let (response, stream) = sender
            .send_request(request, body.is_empty())
            .map_err(|error| Http2Error::unusable(error.is_io() || error.is_go_away()))?;
        drop(sender);
        if head.wants_close() {
            self.0.retired.set(true);
        }
        let is_first = response.stream_id().as_u32() == 1;
        let mut sink = BodySink::new(*discard_body);
        let upload = pin!(upload(stream, body));
        let transfer = Transfer { shared: &self.0, is_first, upload, uploaded: false, trace };
        let head = transfer.run(response, *to_head_request, &mut sink).await?;
        Ok(Response { head, body: sink.body, reusable: false })
    }
}

impl Shared {
    /// The error that ended the connection for new requests.
    fn closing_error(&self) -> Option<h2::Error> {
        let mut cx = Context::from_waker(Waker::noop());
        match self.sender.borrow_mut().poll_ready(&mut cx) {
            Poll::Ready(Err(error)) => Some(error),
            _ => None,
        }
    }

    /// The error of k6 for an error of a stream.
    fn failed(&self, error: &h2::Error, is_first: bool) -> RequestError {
        let code = error.reason().map_or(0, u32::from);
        if error.is_reset() {
            let from_peer = error.is_remote();
            let is_protocol = from_peer && code == u32::from(Reason::PROTOCOL_ERROR);
            if is_protocol {
                self.retired.set(true);
            }
            let unprocessed = is_protocol || code == u32::from(Reason::REFUSED_STREAM);
            return Http2Error { scope: Http2Scope::Stream, code, unprocessed }.into();
        }
        if error.is_go_away() && error.is_remote() {
            // The server has not seen this request. One that rejects the first of a connection would reject it again.
            let scope =
                if is_first && code != 0 { Http2Scope::FirstRefused } else { Http2Scope::Unseen };
            let unprocessed = scope == Http2Scope::Unseen;
            return Http2Error { scope, code, unprocessed }.into();
        }
        if error.is_go_away() {
            let scope = Http2Scope::Connection;
            return Http2Error { scope, code, unprocessed: false }.into();
        }
        match self.closing_error().filter(h2::Error::is_remote).and_then(|error| error.reason()) {
            Some(reason) => {
                let (scope, code) = (Http2Scope::GoAway, u32::from(reason));
                Http2Error { scope, code, unprocessed: false }.into()
            }
            None => self.wire.failure(error),
        }
    }
}

/// Counts a request as open until it is dropped, and then its bytes.
struct OpenStream<'a> {
    shared: &'a Shared,
    traffic: &'a mut Traffic,
}

impl<'a> OpenStream<'a> {
    fn new(shared: &'a Shared, traffic: &'a mut Traffic) -> Self {
        let open = &shared.wire.open_streams;
        open.set(open.get() + 1);
        Self { shared, traffic }
    }
}

impl Drop for OpenStream<'_> {
    fn drop(&mut self) {
        let wire = &self.shared.wire;
        let open = wire.open_streams.get() - 1;
        wire.open_streams.set(open);
        self.traffic.add(wire.traffic.take());
        if open == 0 && self.shared.retired.get() {
            wire.close();
        }
    }
}

/// The frames of a connection and the state of the task that moves them.
struct Wire {
    /// `None` once closed.
    frames: RefCell<Option<Frames>>,
    /// Waker of the task, which also receives the wake-ups of other polls.
    waker: RefCell<Waker>,
    failure: Cell<Option<io::ErrorKind>>,
    /// Bytes since the end of the last request.
    traffic: Rc<Cell<Traffic>>,
    open_streams: Cell<usize>,
}

impl Wire {
    /// Closes the socket; open requests fail.
    fn close(&self) {
        self.frames.take();
    }

    fn drive(&self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.waker.borrow().will_wake(cx.waker()) {
            self.waker.replace(cx.waker().clone());
        }
        let polled = self.poll(cx);
        if self.open_streams.get() == 0 && self.traffic.get().received > MAX_IDLE_BYTES {
            self.close();
            return Poll::Ready(());
        }
        polled
    }

    /// Sends queued frames now and not at the task's next turn: the time of sending is measured.
    fn flush(&self) {
        let waker = self.waker.borrow().clone();
        let _ended = self.poll(&mut Context::from_waker(&waker));
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut slot = self.frames.borrow_mut();
        let Some(frames) = slot.as_mut() else { return Poll::Ready(()) };
        if let Err(error) = ready!(Pin::new(frames).poll(cx)) {
            self.failure.set(error.get_io().map(io::Error::kind));
        }
        *slot = None;
        Poll::Ready(())
    }

    /// The error of a stream whose socket has failed or was closed. `h2` reports a close as a broken pipe.
    fn failure(&self, error: &h2::Error) -> RequestError {
        match self.failure.get().or_else(|| error.get_io().map(io::Error::kind)) {
            None | Some(io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe) => {
                RequestError::ClosedInsideResponse
            }
            Some(kind) => RequestError::Read(kind.into()),
        }
    }
}

/// The upload of a body and its response, which may arrive at the same time.
struct Transfer<'a, U> {
    shared: &'a Shared,
    is_first: bool,
    upload: Pin<&'a mut U>,
    uploaded: bool,
    trace: &'a mut Trace,
}

impl<U: Future> Transfer<'_, U> {
    async fn run(
        mut self,
        mut response: ResponseFuture,
        to_head_request: bool,
        sink: &mut BodySink,
    ) -> Result<Head, RequestError> {
        let response = poll_fn(|cx| {
            self.poll_upload(cx);
            Pin::new(&mut response).poll(cx)
        });
        let response = response.await.map_err(|error| self.failed(&error))?;
        self.trace.first_byte = Some(Instant::now());
        let (parts, body) = response.into_parts();
        let head = Head::of_http2(parts.status, &parts.headers)?;
        // As in Go the rest of the body is not sent to a server that rejects the request.
        self.uploaded |= head.status > 299;
        if let Some(length) = announced_length(&head).filter(|_| !to_head_request) {
            sink.expect(length)?;
        }
        self.read(body, sink).await?;
        Ok(head)
    }

    async fn read(
        &mut self,
        mut body: RecvStream,
        sink: &mut BodySink,
    ) -> Result<(), RequestError> {
        loop {
            let part = poll_fn(|cx| {
                self.poll_upload(cx);
                body.poll_data(cx)
            });
            let part = match part.await {
                None => return Ok(()),
                // The response is complete, and the server does not read the rest of the request (RFC 9113 §8.1).
                Some(Err(error)) if is_no_error(&error) => return Ok(()),
                Some(part) => part.map_err(|error| self.failed(&error))?,
            };
            sink.take(&part)?;
            let released = body.flow_control().release_capacity(part.len());
            released.map_err(|error| self.failed(&error))?;
        }
    }

    fn failed(&self, error: &h2::Error) -> RequestError {
        self.shared.failed(error, self.is_first)
    }

    fn poll_upload(&mut self, cx: &mut Context<'_>) {
        if self.uploaded {
            return;
        }
        self.uploaded = self.upload.as_mut().poll(cx).is_ready();
        self.shared.wire.flush();
        if self.uploaded {
            self.trace.sent = Some(Instant::now());
        }
    }
}

fn is_no_error(error: &h2::Error) -> bool {
    error.is_reset() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR)
}

fn announced_length(head: &Head) -> Option<u64> {
    let length = head.values("content-length").next()?;
    std::str::from_utf8(length).ok()?.parse().ok()
}

/// Sends a body as flow control allows. An error of the stream is reported by its response.
async fn upload(mut stream: SendStream<Bytes>, mut body: &[u8]) -> Option<()> {
    while !body.is_empty() {
        stream.reserve_capacity(body.len());
        let room = poll_fn(|cx| stream.poll_capacity(cx)).await?.ok()?;
        let (part, rest) = body.split_at(room.min(body.len()));
        if !part.is_empty() {
            stream.send_data(Bytes::copy_from_slice(part), rest.is_empty()).ok()?;
        }
        body = rest;
    }
    Some(())
}
