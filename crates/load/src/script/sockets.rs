//! The WebSockets of a virtual user.
//!
//! A [`Socket`] is shared by the script's object, by what reads the network for it (the virtual user itself in `k6/ws`, a
//! task of the event loop in `k6/websockets`), and by the list of those that are open, which closes what an
//! iteration leaves behind.

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

/// How long a server may take to answer a close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes that may wait to be sent.
const MAX_UNSENT_BYTES: usize = 64 * 1024 * 1024;

/// Pings whose answers are waited for; the oldest is given up.
const MAX_PINGS: usize = 1000;

/// Code of the close frame that a cut off session ends with (k6's: "normal closure").
const CUT_OFF_CODE: u16 = 1000;

/// Where a socket is in its life, by the numbers of the standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(super) enum ReadyState {
    #[default]
    Connecting = 0,
    Open = 1,
    Closing = 2,
    Closed = 3,
}

/// The tags of everything a session measures: those of the moment it was begun.
#[derive(Default)]
struct SessionTags {
    assignment: Rc<Assignment>,
    group: Rc<str>,
    custom: Vec<(String, String)>,
}

/// One WebSocket.
#[derive(Default)]
pub(super) struct Socket {
    connection: RefCell<Option<Connection>>,
    state: Cell<ReadyState>,
    tags: RefCell<SessionTags>,
    started: Cell<Option<Instant>>,
    /// Of [`Self::poll`].
    waker: RefCell<Option<Waker>>,
    close_by: Cell<Option<Deadline>>,
    /// A close frame for when there is a connection.
    early_close: RefCell<Option<(u16, String)>>,
    pings: RefCell<VecDeque<(u64, Instant)>>,
    next_ping: Cell<u64>,
    /// Events that were read and not seen by the script yet, and their bytes.
    waiting: Cell<(usize, usize)>,
}

/// Events, and bytes in them, that may wait for the script; with more the network is not read.
const MAX_WAITING: (usize, usize) = (64, 256 * 1024);

pub(super) enum Found {
    Message(Incoming),
    /// Nothing will come any more.
    End(End),
    /// The script has closed the connection, or given it a deadline.
    Changed,
}

impl Socket {
    /// A socket that is going to connect, with the tags of this moment and `tags`, of which later ones win.
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
        let result = match opened {
            Ok(Opened { connection, head, peer }) => {
                self.tag("ip", &peer.address.ip().to_string());
                self.connection.replace(Some(connection));
                user.sockets.0.borrow_mut().push(self.clone());
                if let Some((code, reason)) = self.early_close.take() {
                    // The first one on this connection.
                    let _ = self.send_close(code, &reason);
                }
                Ok(head)
            }
            Err(error) => {
                count_traffic(user, traffic);
                Err(error)
            }
        };
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

    fn count(&self, user: &User, metric: Builtin, value: f64) {
        let SessionTags { assignment, group, custom } = &*self.tags.borrow();
        let scenario = &assignment.scenario;
        let tags = SampleTags { scenario, group, custom, ..SampleTags::default() };
        user.event_loop.recorder.borrow_mut().add(metric.id(), value, &tags);
    }

    /// Counts a message the script gets to see.
    pub(super) fn count_received(&self, user: &User) {
        self.count(user, Builtin::WsMsgsReceived, 1.0);
    }

    /// Counts a message of the script.
    pub(super) fn count_sent(&self, user: &User) {
        self.count(user, Builtin::WsMsgsSent, 1.0);
    }

    /// Counts the time since [`Self::connect`].
    pub(super) fn count_session(&self, user: &User) {
        if let Some(started) = self.started.take()
            && !user.control.is_interrupted()
        {
            self.count(user, Builtin::WsSessionDuration, started.elapsed().as_secs_f64() * 1e3);
        }
    }

    /// Does not count it: there was no session.
    pub(super) fn forget_session(&self) {
        self.started.take();
    }

    /// Whether there is a connection.
    pub(super) fn is_connected(&self) -> bool {
        self.connection.borrow().is_some()
    }

    /// Sends a close frame as soon as there is a connection.
    pub(super) fn close_early(&self, code: u16, reason: String) {
        self.early_close.replace(Some((code, reason)));
    }

    pub(super) fn state(&self) -> ReadyState {
        self.state.get()
    }

    pub(super) fn set_state(&self, state: ReadyState) {
        self.state.set(state);
    }

    /// Payload bytes that are not sent yet.
    pub(super) fn unsent(&self) -> usize {
        self.connection.borrow().as_ref().map_or(0, Connection::unsent)
    }

    /// Puts a message where [`Self::poll`] or [`Self::poll_flush`] sends it.
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

    /// Times the answer to a ping. As in k6 a second answer counts again.
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

    /// Sends a close frame and gives the server a time to answer it.
    pub(super) fn send_close(&self, code: u16, reason: &str) -> Result<(), End> {
        let mut connection = self.connection.borrow_mut();
        connection.as_mut().ok_or(End::CloseSent)?.send_close(code, reason)?;
        self.close_by.set(Some(Deadline::now() + CLOSE_TIMEOUT));
        self.wake();
        Ok(())
    }

    /// Until when the server may answer a close frame; absent before there is one.
    pub(super) fn close_by(&self) -> Option<Deadline> {
        self.close_by.get()
    }

    /// Closes the connection at once.
    pub(super) fn finish(&self, user: &User) {
        let Some(connection) = self.connection.take() else { return };
        count_traffic(user, connection.finish());
        self.wake();
        let mut open = user.sockets.0.borrow_mut();
        open.retain(|socket| !std::ptr::eq(&raw const **socket, self));
    }

    /// Writes everything; ready when it is written.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        match &mut *self.connection.borrow_mut() {
            Some(connection) => connection.poll_flush(cx),
            None => Poll::Ready(Err(End::CloseSent)),
        }
    }

    /// Writes, and reads unless enough waits for the script.
    pub(super) fn poll(&self, cx: &mut Context<'_>, has_deadline: bool) -> Poll<Found> {
        self.waker.replace(Some(cx.waker().clone()));
        let mut connection = self.connection.borrow_mut();
        let Some(connection) = connection.as_mut() else { return Poll::Ready(Found::Changed) };
        if self.close_by.get().is_some() && !has_deadline {
            return Poll::Ready(Found::Changed);
        }
        if let Poll::Ready(Err(end)) = connection.poll_flush(cx) {
            return Poll::Ready(Found::End(end));
        }
        let (events, bytes) = self.waiting.get();
        if events >= MAX_WAITING.0 || bytes >= MAX_WAITING.1 {
            return Poll::Pending;
        }
        let found = match connection.poll_next(cx) {
            Poll::Ready(Ok(message)) => Found::Message(message),
            Poll::Ready(Err(end)) => Found::End(end),
            Poll::Pending => return Poll::Pending,
        };
        // The answer to a ping; an error shows in the next call.
        let _ = connection.poll_flush(cx);
        Poll::Ready(found)
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// An event of so many bytes waits for the script.
    pub(super) fn hold(&self, bytes: usize) {
        let (events, held) = self.waiting.get();
        self.waiting.set((events + 1, held + bytes));
    }

    /// It waits no more.
    pub(super) fn release(&self, bytes: usize) {
        let (events, held) = self.waiting.get();
        self.waiting.set((events.saturating_sub(1), held.saturating_sub(bytes)));
        self.wake();
    }
}

/// Counts bytes of the network, as k6 does: without the tags of the session.
pub(super) fn count_traffic(user: &User, traffic: Traffic) {
    if traffic.sent > 0 {
        user.add(Builtin::DataSent.id(), traffic.sent as f64, None);
    }
    if traffic.received > 0 {
        user.add(Builtin::DataReceived.id(), traffic.received as f64, None);
    }
}

/// Those that are connected.
#[derive(Default)]
pub(crate) struct Sockets(RefCell<Vec<Rc<Socket>>>);

impl Sockets {
    /// Closes those that an iteration has left behind.
    pub(super) fn close(&self, user: &User) {
        if self.0.borrow().is_empty() {
            return;
        }
        for socket in self.0.take() {
            // An earlier close frame is the last word.
            let _ = socket.send_close(CUT_OFF_CODE, "");
            socket.set_state(ReadyState::Closed);
            socket.finish(user);
        }
    }
}
