//! One client connection: deadlines without a timer for each request.
//!
//! A timer that is armed and disarmed for every request would cost more than the rest of a cached
//! answer. Instead the connection notes in a few atomics what it is waiting for and since when, and
//! a watchdog of its worker looks at all connections a few times a second.

use crate::config::ServerSettings;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What a client must take within the write deadline while something waits for it: with the default of
/// 15 s, 70 kbit/s. Slower, an answer of a few megabytes would be held in memory for a quarter of an hour.
const WRITE_PROGRESS_BYTES: u64 = 128 * 1024;

/// How long what a client still sends is passed over after an answer that left its body unread.
const LINGER_MS: u64 = 1000;

/// Milliseconds since a worker started, coarse: refreshed by its watchdog. Never 0, which means "not waiting".
#[derive(Debug)]
pub(super) struct CoarseClock {
    started: Instant,
    now_ms: AtomicU64,
}

impl CoarseClock {
    /// Clocks of one `started` can be compared.
    pub(super) fn new(started: Instant) -> Self {
        let clock = Self { started, now_ms: AtomicU64::new(1) };
        clock.refresh();
        clock
    }

    pub(super) fn refresh(&self) {
        let ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.now_ms.store(ms + 1, Relaxed);
    }

    fn now(&self) -> u64 {
        self.now_ms.load(Relaxed)
    }
}

/// What a connection waits for; shared with the watchdog of its worker.
#[derive(Debug)]
pub(super) struct ConnState {
    clock: Arc<CoarseClock>,
    /// A request is being handled: its own deadlines hold.
    busy: AtomicBool,
    /// A first request has begun.
    begun: AtomicBool,
    /// What was read last ends within a head or a body.
    half_read: AtomicBool,
    /// When the wait for the next request began.
    idle_since: AtomicU64,
    /// When the first byte of an incomplete head came, or the connection itself; 0 = none is awaited.
    head_since: AtomicU64,
    /// When the wait for a request's body began; 0 = none is awaited.
    body_since: AtomicU64,
    /// The body of the last request was left unread.
    body_unread: AtomicBool,
    /// When the connection ended with such a body; 0 = it has not.
    lingers_since: AtomicU64,
    write: SlowWrite,
    expired: AtomicBool,
    /// The server drains: the connection is to end as soon as it has nothing to do.
    asked_to_close: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

/// Why the watchdog ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expired {
    Idle,
    Head,
    Write,
    Unread,
}

impl Expired {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Expired::Idle => "idle",
            Expired::Head => "slow_head",
            Expired::Write => "slow_reader",
            Expired::Unread => "unread_body",
        }
    }
}

impl ConnState {
    pub(super) fn new(clock: Arc<CoarseClock>) -> Self {
        let now = clock.now();
        Self {
            clock,
            busy: AtomicBool::new(false),
            begun: AtomicBool::new(false),
            half_read: AtomicBool::new(false),
            idle_since: AtomicU64::new(now),
            head_since: AtomicU64::new(now),
            body_since: AtomicU64::new(0),
            body_unread: AtomicBool::new(false),
            lingers_since: AtomicU64::new(0),
            write: SlowWrite::default(),
            expired: AtomicBool::new(false),
            asked_to_close: AtomicBool::new(false),
            waker: Mutex::new(None),
        }
    }

    /// A head is complete; its request is handled from here.
    pub(super) fn request_begins(&self) {
        self.busy.store(true, Relaxed);
        self.begun.store(true, Relaxed);
        self.head_since.store(0, Relaxed);
    }

    /// The request has a body, which is awaited from here.
    pub(super) fn body_begins(&self) {
        self.body_since.store(self.clock.now(), Relaxed);
    }

    /// The body is no longer awaited: it is there, or was left `unread`.
    pub(super) fn body_ends(&self, unread: bool) {
        self.body_since.store(0, Relaxed);
        self.body_unread.store(unread, Relaxed);
        self.half_read.store(false, Relaxed);
    }

    /// Whether any request has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.begun.load(Relaxed)
    }

    /// The answer's head is ready; what remains is writing.
    pub(super) fn request_ends(&self) {
        let now = self.clock.now();
        self.idle_since.store(now, Relaxed);
        if self.half_read.load(Relaxed) {
            // The beginning of the next request came with this one, or while it was worked on.
            self.head_since.store(now, Relaxed);
        }
        self.busy.store(false, Relaxed);
    }

    /// The deadline that has passed, if any.
    pub(super) fn check(&self, limits: &Limits) -> Option<Expired> {
        let now = self.clock.now();
        let over = |since: u64, limit: u64| since != 0 && now.saturating_sub(since) > limit;
        if self.write.is_over(now, limits.write_ms) {
            return Some(Expired::Write);
        }
        if over(self.lingers_since.load(Relaxed), LINGER_MS) {
            return Some(Expired::Unread);
        }
        if self.busy.load(Relaxed) {
            return None;
        }
        let head = self.head_since.load(Relaxed);
        if over(head, limits.head_ms) {
            return Some(Expired::Head);
        }
        let idle = head == 0 && !self.write.is_blocked();
        (idle && over(self.idle_since.load(Relaxed), limits.idle_ms)).then_some(Expired::Idle)
    }

    /// Since when this connection waits for its client to send or to take something; nothing while the
    /// server works for it.
    pub(super) fn waits_since(&self) -> Option<u64> {
        let (blocked, lingers) =
            (self.write.blocked_since.load(Relaxed), self.lingers_since.load(Relaxed));
        let head = self.head_since.load(Relaxed);
        let since = if self.expired.load(Relaxed) {
            0
        } else if blocked != 0 || lingers != 0 {
            blocked.max(lingers)
        } else if self.busy.load(Relaxed) {
            self.body_since.load(Relaxed)
        } else if head != 0 {
            head
        } else {
            self.idle_since.load(Relaxed)
        };
        (since != 0).then_some(since)
    }

    /// Makes the connection fail at its next poll, and polls it; false when it was told before.
    pub(super) fn expire(&self) -> bool {
        let first = !self.expired.swap(true, Relaxed);
        self.wake();
        first
    }

    /// Asks the connection to end once it has nothing to do, and polls it.
    pub(super) fn ask_to_close(&self) {
        self.asked_to_close.store(true, Relaxed);
        self.wake();
    }

    /// Whether it was asked to.
    pub(super) fn is_asked_to_close(&self) -> bool {
        self.asked_to_close.load(Relaxed)
    }

    /// Polls the connection: there is news in shared state.
    pub(super) fn wake(&self) {
        let waker = self.waker.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Remembers whom to wake. The lock is only ever contended by the watchdog.
    fn wait(&self, cx: &Context<'_>) {
        let mut slot = self.waker.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match &*slot {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            _ => *slot = Some(cx.waker().clone()),
        }
    }

    fn has_read(&self, bytes: &[u8]) {
        // RFC 9112, 2.2: some clients end lines without a carriage return.
        let whole = bytes.ends_with(b"\r\n\r\n") || bytes.ends_with(b"\n\n");
        self.half_read.store(!whole, Relaxed);
        if !self.busy.load(Relaxed) && self.head_since.load(Relaxed) == 0 {
            self.head_since.store(self.clock.now(), Relaxed);
        }
    }

    fn all_is_written(&self) {
        if self.write.is_blocked() {
            let now = self.clock.now();
            self.write.pause(now);
            self.idle_since.store(now, Relaxed);
        }
    }

    /// Whether what still comes is to be passed over before the connection is closed.
    fn lingers(&self) -> bool {
        if !self.body_unread.load(Relaxed) {
            return false;
        }
        if self.lingers_since.load(Relaxed) == 0 {
            self.lingers_since.store(self.clock.now(), Relaxed);
        }
        true
    }
}

/// The pace of a client that takes less than there is to write. Time counts while the socket refuses
/// bytes, over any number of answers and pieces of them, until enough was taken.
#[derive(Debug, Default)]
struct SlowWrite {
    /// When the socket last refused bytes; 0 = it takes them.
    blocked_since: AtomicU64,
    /// How long it refused them before that, since `taken` began.
    waited_ms: AtomicU64,
    /// Bytes since the first refusal, or since there was enough progress.
    taken: AtomicU64,
}

impl SlowWrite {
    fn is_blocked(&self) -> bool {
        self.blocked_since.load(Relaxed) != 0
    }

    fn is_over(&self, now: u64, limit_ms: u64) -> bool {
        let since = self.blocked_since.load(Relaxed);
        since != 0 && self.waited_ms.load(Relaxed) + now.saturating_sub(since) > limit_ms
    }

    fn block(&self, now: u64) {
        if self.is_blocked() {
            return;
        }
        if self.waited_ms.load(Relaxed) == 0 {
            self.taken.store(0, Relaxed);
        }
        self.blocked_since.store(now, Relaxed);
    }

    /// Nothing waits to be written any more, so the client need not take anything.
    fn pause(&self, now: u64) {
        let since = self.blocked_since.swap(0, Relaxed);
        self.waited_ms.fetch_add(now.saturating_sub(since), Relaxed);
    }

    fn take(&self, bytes: usize, now: impl Fn() -> u64) {
        let blocked = self.is_blocked();
        if !blocked && self.waited_ms.load(Relaxed) == 0 {
            return;
        }
        let taken = self.taken.load(Relaxed) + bytes as u64;
        if taken < WRITE_PROGRESS_BYTES {
            self.taken.store(taken, Relaxed);
            return;
        }
        self.taken.store(0, Relaxed);
        self.waited_ms.store(0, Relaxed);
        if blocked {
            self.blocked_since.store(now(), Relaxed);
        }
    }
}

/// Deadlines in milliseconds, as the watchdog compares them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    head_ms: u64,
    write_ms: u64,
    idle_ms: u64,
}

impl Limits {
    pub(super) fn new(settings: &ServerSettings) -> Self {
        let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        Self {
            head_ms: ms(settings.header_timeout),
            write_ms: ms(settings.write_timeout),
            idle_ms: ms(settings.idle_timeout),
        }
    }

    /// How often the watchdog looks: a quarter of the shortest deadline, from 10 ms to 250 ms.
    pub(super) fn watch_every(&self) -> Duration {
        let shortest = self.head_ms.min(self.write_ms).min(self.idle_ms);
        Duration::from_millis((shortest / 4).clamp(10, 250))
    }
}

/// A socket that keeps its [`ConnState`] up to date.
pub(super) struct WatchedStream {
    stream: TcpStream,
    state: Arc<ConnState>,
}

impl WatchedStream {
    pub(super) fn new(stream: TcpStream, state: Arc<ConnState>) -> Self {
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
        // Called once everything buffered has been written.
        self.state.all_is_written();
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        // Closing with unread bytes would reset the connection and may take the answer with it.
        while self.state.lingers() {
            self.fail_if_expired()?;
            let mut unread = [0; 4096];
            let mut unread = ReadBuf::new(&mut unread);
            match Pin::new(&mut self.stream).poll_read(cx, &mut unread) {
                Poll::Ready(Ok(())) if !unread.filled().is_empty() => {}
                Poll::Ready(_) => break,
                Poll::Pending => {
                    self.state.wait(cx);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { head_ms: 100, write_ms: 200, idle_ms: 1000 };

    fn at(clock: &CoarseClock, ms: u64) {
        clock.now_ms.store(ms, Relaxed);
    }

    fn opened() -> (Arc<CoarseClock>, ConnState) {
        let clock = Arc::new(CoarseClock::new(Instant::now()));
        at(&clock, 1);
        let state = ConnState::new(Arc::clone(&clock));
        (clock, state)
    }

    #[test]
    fn each_wait_has_its_own_deadline() {
        let (clock, state) = opened();
        at(&clock, 101);
        assert_eq!(state.check(&LIMITS), None);
        at(&clock, 102);
        assert_eq!(state.check(&LIMITS), Some(Expired::Head), "no first byte");
        state.has_read(b"GET");
        assert_eq!(state.check(&LIMITS), Some(Expired::Head), "the first byte gives no more time");
        state.has_read(b" / HTTP/1.1\r\n\r\n");
        state.request_begins();
        at(&clock, 9000);
        assert_eq!(state.check(&LIMITS), None, "a request in work has its own deadline");
        state.request_ends();
        at(&clock, 10_000);
        assert_eq!(state.check(&LIMITS), None);
        at(&clock, 10_001);
        assert_eq!(state.check(&LIMITS), Some(Expired::Idle));
        state.has_read(b"GET");
        assert_eq!(state.check(&LIMITS), None, "a head has begun");
        at(&clock, 10_102);
        assert_eq!(state.check(&LIMITS), Some(Expired::Head));
    }

    #[test]
    fn half_a_head_that_came_with_a_request_has_the_deadline_of_a_head() {
        for body in [false, true] {
            let (clock, state) = opened();
            state.has_read(b"GET / HTTP/1.1\r\n\r\nGET");
            state.request_begins();
            if body {
                state.body_begins();
                state.body_ends(false);
                state.has_read(b"GET");
            }
            state.request_ends();
            at(&clock, 102);
            assert_eq!(state.check(&LIMITS), Some(Expired::Head), "{body}");
        }
    }

    #[test]
    fn a_reader_must_keep_up_a_pace_over_all_pieces_and_answers() {
        let (clock, state) = opened();
        state.has_read(b"GET / HTTP/1.1\r\n\r\n");
        state.request_begins();
        state.request_ends();
        let write = &state.write;
        let take = |bytes| write.take(bytes, || clock.now());
        write.block(1);
        take(1000);
        at(&clock, 202);
        assert_eq!(state.check(&LIMITS), Some(Expired::Write), "a trickle is no progress");
        take(128 * 1024);
        assert_eq!(state.check(&LIMITS), None);
        at(&clock, 402);
        assert_eq!(state.check(&LIMITS), None);
        // Small pieces, each taken whole and late.
        for piece in 1..=3 {
            take(10_000);
            state.all_is_written();
            at(&clock, 402 + piece * 100_000);
            assert_eq!(state.check(&LIMITS), Some(Expired::Idle), "nothing waits to be written");
            state.request_begins();
            state.request_ends();
            write.block(clock.now());
            assert_eq!(state.check(&LIMITS), None, "piece {piece}");
        }
        at(&clock, 300_403);
        assert_eq!(state.check(&LIMITS), Some(Expired::Write), "1 ms more than allowed in all");
        take(128 * 1024);
        state.all_is_written();
        at(&clock, 301_402);
        assert_eq!(state.check(&LIMITS), None);
        at(&clock, 301_404);
        assert_eq!(state.check(&LIMITS), Some(Expired::Idle));
    }

    #[test]
    fn a_connection_waits_for_its_client_except_while_the_server_works() {
        let (clock, state) = opened();
        assert_eq!(state.waits_since(), Some(1), "for a first head");
        at(&clock, 10);
        state.request_begins();
        assert_eq!(state.waits_since(), None);
        state.body_begins();
        assert_eq!(state.waits_since(), Some(10), "for a body");
        state.body_ends(false);
        assert_eq!(state.waits_since(), None);
        at(&clock, 20);
        state.request_ends();
        assert_eq!(state.waits_since(), Some(20), "for the next request");
        state.write.block(15);
        assert_eq!(state.waits_since(), Some(15), "for its reader");
        assert!(state.expire());
        assert_eq!(state.waits_since(), None, "it is closing");
    }

    #[test]
    fn what_follows_an_unread_body_is_passed_over_for_a_second() {
        let (clock, state) = opened();
        state.request_begins();
        state.body_begins();
        assert!(!state.lingers());
        state.body_ends(true);
        assert!(state.lingers());
        at(&clock, 1002);
        assert!(state.lingers());
        assert_eq!(state.check(&LIMITS), Some(Expired::Unread));
    }
}
