//! One client connection. It notes in a few atomics what it waits for and since when; a watchdog of its worker checks
//! the deadlines of all connections a few times a second (docs/decisions/0004-watchdog.md).

mod slow_write;
mod stream;
#[cfg(test)]
mod tests;

pub(super) use stream::WatchedStream;

use crate::config::ServerSettings;
use parking_lot::Mutex;
use slow_write::SlowWrite;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

/// Time for which unread input is discarded after the last response, in milliseconds.
const LINGER_MS: u64 = 1000;

/// Milliseconds since a worker started, coarse: refreshed by its watchdog. Never 0, which means "not waiting".
#[derive(Debug)]
pub(super) struct CoarseClock {
    started: Instant,
    now_ms: AtomicU64,
}

impl CoarseClock {
    /// Clocks with the same `started` can be compared.
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

/// Waits of a connection, shared with the watchdog of its worker.
#[derive(Debug)]
pub(super) struct ConnState {
    clock: Arc<CoarseClock>,
    pub(super) peer: IpAddr,
    /// A request is being handled, under its own deadlines.
    busy: AtomicBool,
    /// A first request has begun.
    begun: AtomicBool,
    /// The last read ended within a head or a body.
    half_read: AtomicBool,
    /// Start of the wait for the next request.
    idle_since: AtomicU64,
    /// Time of the first byte of an incomplete head, or of the connection; 0 = no head is awaited.
    head_since: AtomicU64,
    /// Start of the wait for a request's body; 0 = none is awaited.
    body_since: AtomicU64,
    /// The body of the last request, or input behind it, was left unread.
    unread: AtomicBool,
    /// Time at which the connection ended with unread input; 0 = it has not.
    lingers_since: AtomicU64,
    write: SlowWrite,
    expired: AtomicBool,
    /// The server drains: the connection ends once it is idle.
    asked_to_close: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl ConnState {
    pub(super) fn new(clock: Arc<CoarseClock>, peer: IpAddr) -> Self {
        let now = clock.now();
        Self {
            clock,
            peer,
            busy: AtomicBool::new(false),
            begun: AtomicBool::new(false),
            half_read: AtomicBool::new(false),
            idle_since: AtomicU64::new(now),
            head_since: AtomicU64::new(now),
            body_since: AtomicU64::new(0),
            unread: AtomicBool::new(false),
            lingers_since: AtomicU64::new(0),
            write: SlowWrite::default(),
            expired: AtomicBool::new(false),
            asked_to_close: AtomicBool::new(false),
            waker: Mutex::new(None),
        }
    }

    /// A head is complete; its request is handled from now on.
    pub(super) fn request_begins(&self) {
        self.busy.store(true, Relaxed);
        self.begun.store(true, Relaxed);
        self.head_since.store(0, Relaxed);
    }

    /// The request has a body, which is awaited from now on.
    pub(super) fn body_begins(&self) {
        self.body_since.store(self.clock.now(), Relaxed);
    }

    /// The body is no longer awaited: it has arrived, or was left `unread`.
    pub(super) fn body_ends(&self, unread: bool) {
        self.body_since.store(0, Relaxed);
        self.unread.store(unread, Relaxed);
        self.half_read.store(false, Relaxed);
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun.load(Relaxed)
    }

    /// The response's head is ready; only writing remains.
    pub(super) fn request_ends(&self) {
        let now = self.clock.now();
        self.idle_since.store(now, Relaxed);
        if self.half_read.load(Relaxed) {
            // The start of the next request arrived with this one or while it was handled.
            self.head_since.store(now, Relaxed);
        }
        self.busy.store(false, Relaxed);
    }

    /// The deadline that has passed, as a label of the metric of closed connections.
    pub(super) fn check(&self, deadlines: &Deadlines) -> Option<&'static str> {
        let now = self.clock.now();
        let over = |since: u64, limit: u64| since != 0 && now.saturating_sub(since) > limit;
        if self.write.is_over(now, deadlines.write_ms) {
            return Some("slow_reader");
        }
        if over(self.lingers_since.load(Relaxed), LINGER_MS) {
            return Some("unread_body");
        }
        if self.busy.load(Relaxed) {
            return None;
        }
        let head = self.head_since.load(Relaxed);
        if over(head, deadlines.head_ms) {
            return Some("slow_head");
        }
        let idle = head == 0 && !self.write.is_blocked();
        (idle && over(self.idle_since.load(Relaxed), deadlines.idle_ms)).then_some("idle")
    }

    /// Start of the wait for the client to send or read; `None` while the server works for it.
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

    /// Makes the connection fail at its next poll, and wakes it; false when it had expired before.
    pub(super) fn expire(&self) -> bool {
        let first = !self.expired.swap(true, Relaxed);
        self.wake();
        first
    }

    /// Asks the connection to end once it is idle, and wakes it.
    pub(super) fn ask_to_close(&self) {
        self.asked_to_close.store(true, Relaxed);
        self.wake();
    }

    pub(super) fn is_asked_to_close(&self) -> bool {
        self.asked_to_close.load(Relaxed)
    }

    pub(super) fn wake(&self) {
        let waker = self.waker.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Stores the waker. Only the watchdog contends for the lock.
    fn wait(&self, cx: &Context<'_>) {
        let mut slot = self.waker.lock();
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

    /// Input was left unread when the connection ended.
    fn leaves_unread(&self) {
        self.unread.store(true, Relaxed);
    }

    /// True if remaining input is discarded before the connection is closed.
    fn lingers(&self) -> bool {
        if !self.unread.load(Relaxed) {
            return false;
        }
        if self.lingers_since.load(Relaxed) == 0 {
            self.lingers_since.store(self.clock.now(), Relaxed);
        }
        true
    }
}

/// Deadlines in milliseconds, as the watchdog compares them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadlines {
    head_ms: u64,
    write_ms: u64,
    idle_ms: u64,
}

impl Deadlines {
    pub(super) fn new(settings: &ServerSettings) -> Self {
        let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        Self {
            head_ms: ms(settings.header_timeout),
            write_ms: ms(settings.write_timeout),
            idle_ms: ms(settings.idle_timeout),
        }
    }

    /// Period of the watchdog: a quarter of the shortest deadline, from 10 ms to 250 ms.
    pub(super) fn watch_every(&self) -> Duration {
        let shortest = self.head_ms.min(self.write_ms).min(self.idle_ms);
        Duration::from_millis((shortest / 4).clamp(10, 250))
    }
}
