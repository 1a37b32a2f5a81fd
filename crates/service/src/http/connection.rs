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
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A reader that takes at least this much within the write deadline is slow, not dead.
const WRITE_PROGRESS_BYTES: u64 = 64 * 1024;

/// Milliseconds since a worker started, coarse: refreshed by its watchdog. Never 0, which means "not waiting".
#[derive(Debug)]
pub(super) struct CoarseClock {
    started: Instant,
    now_ms: AtomicU64,
}

impl CoarseClock {
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), now_ms: AtomicU64::new(1) }
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
    /// When the wait for the next request began.
    idle_since: AtomicU64,
    /// When the first byte of an incomplete head came; 0 = none.
    head_since: AtomicU64,
    /// When the socket last refused bytes without enough progress since; 0 = it takes them.
    write_since: AtomicU64,
    written_since_mark: AtomicU64,
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
}

impl Expired {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Expired::Idle => "idle",
            Expired::Head => "slow_head",
            Expired::Write => "slow_reader",
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
            idle_since: AtomicU64::new(now),
            head_since: AtomicU64::new(0),
            write_since: AtomicU64::new(0),
            written_since_mark: AtomicU64::new(0),
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

    /// Whether any request has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.begun.load(Relaxed)
    }

    /// The answer's head is ready; what remains is writing.
    pub(super) fn request_ends(&self) {
        self.idle_since.store(self.clock.now(), Relaxed);
        self.busy.store(false, Relaxed);
    }

    /// The deadline that has passed, if any.
    pub(super) fn check(&self, limits: &Limits) -> Option<Expired> {
        let now = self.clock.now();
        let over = |since: u64, limit: u64| since != 0 && now.saturating_sub(since) > limit;
        if over(self.write_since.load(Relaxed), limits.write_ms) {
            return Some(Expired::Write);
        }
        if self.busy.load(Relaxed) {
            return None;
        }
        let head = self.head_since.load(Relaxed);
        if over(head, limits.head_ms) {
            return Some(Expired::Head);
        }
        let idle = head == 0 && self.write_since.load(Relaxed) == 0;
        (idle && over(self.idle_since.load(Relaxed), limits.idle_ms)).then_some(Expired::Idle)
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

    fn has_read(&self) {
        if !self.busy.load(Relaxed) && self.head_since.load(Relaxed) == 0 {
            self.head_since.store(self.clock.now(), Relaxed);
        }
    }

    fn has_written(&self, bytes: usize) {
        if self.write_since.load(Relaxed) == 0 {
            return;
        }
        let written = self.written_since_mark.load(Relaxed) + bytes as u64;
        if written >= WRITE_PROGRESS_BYTES {
            self.write_since.store(self.clock.now(), Relaxed);
            self.written_since_mark.store(0, Relaxed);
        } else {
            self.written_since_mark.store(written, Relaxed);
        }
    }

    fn write_is_blocked(&self) {
        if self.write_since.load(Relaxed) == 0 {
            self.written_since_mark.store(0, Relaxed);
            self.write_since.store(self.clock.now(), Relaxed);
        }
    }

    fn all_is_written(&self) {
        if self.write_since.load(Relaxed) != 0 {
            self.write_since.store(0, Relaxed);
            self.idle_since.store(self.clock.now(), Relaxed);
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
            Poll::Ready(Ok(bytes)) => self.state.has_written(*bytes),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => {
                self.state.write_is_blocked();
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
            Poll::Ready(Ok(())) if buf.filled().len() > before => self.state.has_read(),
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
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(clock: &CoarseClock, ms: u64) {
        clock.now_ms.store(ms, Relaxed);
    }

    #[test]
    fn each_wait_has_its_own_deadline() {
        let clock = Arc::new(CoarseClock::new());
        let limits = Limits { head_ms: 100, write_ms: 200, idle_ms: 1000 };
        let state = ConnState::new(Arc::clone(&clock));
        at(&clock, 900);
        assert_eq!(state.check(&limits), None);
        at(&clock, 1002);
        assert_eq!(state.check(&limits), Some(Expired::Idle));
        state.has_read();
        assert_eq!(state.check(&limits), None, "a head has begun");
        at(&clock, 1103);
        assert_eq!(state.check(&limits), Some(Expired::Head));
        state.request_begins();
        at(&clock, 9000);
        assert_eq!(state.check(&limits), None, "a request in work has its own deadline");
        state.request_ends();
        state.write_is_blocked();
        at(&clock, 9201);
        assert_eq!(state.check(&limits), Some(Expired::Write));
        state.has_written(1000);
        assert_eq!(state.check(&limits), Some(Expired::Write), "a trickle is no progress");
        state.has_written(64 * 1024);
        assert_eq!(state.check(&limits), None);
        state.all_is_written();
        at(&clock, 10_100);
        assert_eq!(state.check(&limits), None);
        at(&clock, 10_202);
        assert_eq!(state.check(&limits), Some(Expired::Idle));
    }
}
