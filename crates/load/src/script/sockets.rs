//! The WebSockets of a virtual user.
//!
//! A [`Socket`] is shared by the script's object, by the reader of the network (the virtual user itself in `k6/ws`, a
//! task of the event loop in `k6/websockets`), and by the list of open ones, which closes sockets that an iteration
//! leaves behind.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::time::Instant as Deadline;

use super::user::{Assignment, User};
use crate::http::Traffic;
use crate::log::Level;
use crate::metrics::{Builtin, SampleTags};
use crate::websocket::{Connection, Dial, DialError, End, Incoming, Opcode, Opened};

/// Time for a server to answer a close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Payload bytes that may wait to be sent.
const MAX_UNSENT_BYTES: usize = 64 * 1024 * 1024;

/// Unanswered pings that are kept; a further one replaces the oldest.
const MAX_PINGS: usize = 1000;

/// Code of the close frame that ends a cut off session (k6's: "normal closure").
const CUT_OFF_CODE: u16 = 1000;

/// State of a socket, by the numbers of the standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(super) enum ReadyState {
    #[default]
    Connecting = 0,
    Open = 1,
    Closing = 2,
    Closed = 3,
}

/// Tags of all values of a session: those of its start.
#[derive(Default)]
struct SessionTags {
    assignment: Rc<Assignment>,
    group: Rc<str>,
    custom: Vec<(String, String)>,
}

#[derive(Default)]
pub(super) struct Socket {
    connection: RefCell<Option<Connection>>,
    pub(super) state: Cell<ReadyState>,
    tags: RefCell<SessionTags>,
    /// Start of the session; `None` if there is no duration to count.
    pub(super) started: Cell<Option<Instant>>,
    /// Waker of [`Self::poll`].
    waker: RefCell<Option<Waker>>,
    /// Time limit for the answer to a close frame; `None` before one is sent.
    pub(super) close_by: Cell<Option<Deadline>>,
    /// Code and reason of a close frame to send once connected.
    pub(super) early_close: RefCell<Option<(u16, String)>>,
    pings: RefCell<VecDeque<(u64, Instant)>>,
    next_ping: Cell<u64>,
    /// Number and bytes of the events read but not yet seen by the script.
    waiting: Cell<(usize, usize)>,
}

/// Number and bytes of waiting events at which reading pauses.
const MAX_WAITING: (usize, usize) = (64, 256 * 1024);

pub(super) enum SocketEvent {
    Message(Incoming),
    /// The last event.
    End(End),
    /// The script closed the connection, or gave it a deadline.
    Changed,
}

impl Socket {
    /// A socket before connecting, with the current tags and `tags`, of which later ones win.
    pub(super) fn new(
        user: &User,
        address: &[(&str, &str)],
        tags: &[(String, String)],
    ) -> Rc<Self> {
        let assignment = user.assignment.borrow().clone();
        let own = address.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let custom = own.chain(assignment.tags.iter().cloned()).chain(tags.iter().cloned());
        let custom = custom.collect();
        let group = user.event_loop.recorder.borrow().group_path(user.group.get());
        let tags = RefCell::new(SessionTags { assignment, group, custom });
        Rc::new(Self { tags, ..Self::default() })
    }

    /// Connects and counts the attempt.
    pub(super) async fn connect(
        self: &Rc<Self>,
        user: &User,
        dial: &Dial,
    ) -> Result<crate::http::Head, DialError> {
        let start = Instant::now();
        self.started.set(Some(start));
        let mut traffic = Traffic::default();
        let opened = dial.open(&user.client, &mut traffic).await;
        let took = start.elapsed();
        let result = opened.map(|Opened { connection, head, peer }| {
            self.tag("ip", &peer.address.ip().to_string());
            self.connection.replace(Some(connection));
            user.sockets.0.borrow_mut().push(self.clone());
            if let Some((code, reason)) = self.early_close.take() {
                // The first close frame of the connection: it is accepted.
                let _ = self.send_close(code, &reason);
            }
            head
        });
        if result.is_err() {
            count_traffic(user, traffic);
        }
        let answer = match &result {
            Ok(head) => Some(head),
            Err(error) => error.answer().map(|(head, _)| head),
        };
        if let Some(head) = answer {
            self.tag("status", &head.status.to_string());
            let protocol = head.values("sec-websocket-protocol").next().unwrap_or_default();
            self.tag("subproto", &String::from_utf8_lossy(protocol));
        }
        self.count(user, Builtin::WsSessions, 1.0);
        self.count(user, Builtin::WsConnecting, took.as_secs_f64() * 1e3);
        result
    }

    fn tag(&self, key: &str, value: &str) {
        self.tags.borrow_mut().custom.push((key.to_owned(), value.to_owned()));
    }

    pub(super) fn count(&self, user: &User, metric: Builtin, value: f64) {
        let SessionTags { assignment, group, custom } = &*self.tags.borrow();
        let scenario = &assignment.scenario;
        let tags = SampleTags { scenario, group, custom, ..SampleTags::default() };
        user.event_loop.recorder.borrow_mut().add(metric.id(), value, &tags);
    }

    /// Counts the time since [`Self::connect`].
    pub(super) fn count_session(&self, user: &User) {
        if let Some(started) = self.started.take()
            && !user.control.is_interrupted()
        {
            self.count(user, Builtin::WsSessionDuration, started.elapsed().as_secs_f64() * 1e3);
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connection.borrow().is_some()
    }

    /// Payload bytes not sent yet.
    pub(super) fn unsent(&self) -> usize {
        self.connection.borrow().as_ref().map_or(0, Connection::unsent)
    }

    /// Queues a message for [`Self::poll`] or [`Self::poll_flush`].
    pub(super) fn send(&self, opcode: Opcode, payload: &[u8]) -> Result<(), End> {
        let mut connection = self.connection.borrow_mut();
        let connection = connection.as_mut().ok_or(End::CloseSent)?;
        if connection.unsent() + payload.len() > MAX_UNSENT_BYTES {
            let mebibytes = MAX_UNSENT_BYTES >> 20;
            return Err(End::Failed(format!("more than {mebibytes} MiB wait to be sent")));
        }
        connection.send(opcode, payload)?;
        self.wake();
        Ok(())
    }

    /// Sends a ping whose answer is timed.
    pub(super) fn ping(&self) -> Result<(), End> {
        let number = self.next_ping.get();
        self.send(Opcode::Ping, number.to_string().as_bytes())?;
        self.next_ping.set(number + 1);
        let mut pings = self.pings.borrow_mut();
        if pings.len() >= MAX_PINGS {
            pings.pop_front();
        }
        pings.push_back((number, Instant::now()));
        Ok(())
    }

    /// Records the time since the ping. As in k6 a second answer counts again.
    pub(super) fn track_pong(&self, user: &User, payload: &[u8]) {
        let text = String::from_utf8_lossy(payload);
        let pings = self.pings.borrow();
        let sent = pings.iter().find(|(number, _)| number.to_string() == text);
        match sent {
            Some((_, sent)) => {
                self.count(user, Builtin::WsPing, sent.elapsed().as_secs_f64() * 1e3);
            }
            None => {
                let message = format!("received pong for unknown ping ID {text}");
                user.run.log.write_limited(Level::Warning, &message, &[]);
            }
        }
    }

    /// Sends a close frame and starts the time limit for its answer.
    pub(super) fn send_close(&self, code: u16, reason: &str) -> Result<(), End> {
        let mut connection = self.connection.borrow_mut();
        connection.as_mut().ok_or(End::CloseSent)?.send_close(code, reason)?;
        self.close_by.set(Some(Deadline::now() + CLOSE_TIMEOUT));
        self.wake();
        Ok(())
    }

    /// Closes the connection at once.
    pub(super) fn finish(&self, user: &User) {
        let Some(connection) = self.connection.take() else { return };
        count_traffic(user, connection.finish());
        self.wake();
        let mut open = user.sockets.0.borrow_mut();
        open.retain(|socket| !std::ptr::eq(&raw const **socket, self));
    }

    /// Writes everything queued.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        match &mut *self.connection.borrow_mut() {
            Some(connection) => connection.poll_flush(cx),
            None => Poll::Ready(Err(End::CloseSent)),
        }
    }

    /// Writes, and reads unless too many events wait for the script.
    pub(super) fn poll(&self, cx: &mut Context<'_>, has_deadline: bool) -> Poll<SocketEvent> {
        self.waker.replace(Some(cx.waker().clone()));
        let mut connection = self.connection.borrow_mut();
        let Some(connection) = connection.as_mut() else {
            return Poll::Ready(SocketEvent::Changed);
        };
        if self.close_by.get().is_some() && !has_deadline {
            return Poll::Ready(SocketEvent::Changed);
        }
        if let Poll::Ready(Err(end)) = connection.poll_flush(cx) {
            return Poll::Ready(SocketEvent::End(end));
        }
        let (events, bytes) = self.waiting.get();
        if events >= MAX_WAITING.0 || bytes >= MAX_WAITING.1 {
            return Poll::Pending;
        }
        let event = match connection.poll_next(cx) {
            Poll::Ready(Ok(message)) => SocketEvent::Message(message),
            Poll::Ready(Err(end)) => SocketEvent::End(end),
            Poll::Pending => return Poll::Pending,
        };
        // The answer to a ping. An error shows in the next call.
        let _ = connection.poll_flush(cx);
        Poll::Ready(event)
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Counts an event of so many bytes as waiting for the script.
    pub(super) fn hold(&self, bytes: usize) {
        let (events, held) = self.waiting.get();
        self.waiting.set((events + 1, held + bytes));
    }

    /// Ends the wait of an event.
    pub(super) fn release(&self, bytes: usize) {
        let (events, held) = self.waiting.get();
        self.waiting.set((events.saturating_sub(1), held.saturating_sub(bytes)));
        self.wake();
    }
}

/// Counts network bytes. As in k6, without the tags of the session.
pub(super) fn count_traffic(user: &User, traffic: Traffic) {
    if traffic.sent > 0 {
        user.add(Builtin::DataSent.id(), traffic.sent as f64, None);
    }
    if traffic.received > 0 {
        user.add(Builtin::DataReceived.id(), traffic.received as f64, None);
    }
}

/// The connected sockets of a virtual user.
#[derive(Default)]
pub(crate) struct Sockets(RefCell<Vec<Rc<Socket>>>);

impl Sockets {
    /// Closes the sockets that an iteration has left behind.
    pub(super) fn close(&self, user: &User) {
        if self.0.borrow().is_empty() {
            return;
        }
        for socket in self.0.take() {
            // Fails if a close frame was sent before, which then stays the last one.
            let _ = socket.send_close(CUT_OFF_CODE, "");
            socket.state.set(ReadyState::Closed);
            socket.finish(user);
        }
    }
}
