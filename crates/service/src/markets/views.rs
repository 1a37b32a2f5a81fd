//! Views of markets, counted once for each visitor and day, outside of requests.
//!
//! A request puts a view on a bounded queue. One thread takes all views there, writes them in one transaction and
//! then publishes the new counts; when the queue is full, or a quarter of it holds views of one network, views are
//! dropped and counted as dropped. So a crawler costs readers nothing, and the store a transaction now and then.
//! Views wait for [`GATHER`] at most; a crash loses those. (Likes must not be lost and use another path.)
//!
//! A visitor is a user, or else an address and a kind of browser. Stored is a keyed hash that changes every
//! day: without the key it reveals neither the visitor nor a later visit. The key derives from
//! the token key, which by default is beside the database: an attacker with both can try addresses and
//! ids of users, all of IPv4 within minutes, and learn who looked at what today and
//! yesterday; rows of earlier days are deleted when they are folded into the counts.
//!
//! A network (an IPv4 address; of IPv6 a /56, which one customer gets, RFC 6177 and RIPE-690) has at most
//! [`BROWSERS`] visitors without an account a day, however many browsers it claims to be, so invented browsers do not
//! inflate a count. It counts at most [`OF_NETWORK`] views a day over all markets, those of users included, so
//! signing up does not use up the day of others. There is no bound over all networks, which one could use up: as many
//! networks as have a counter of their own ([`networks::COUNTERS`]) have a share each, and that bounds the rows of a
//! day: at 30 bytes a row 3 MB for a hundred networks that use up theirs, 490 MB if 16,384 did.
//!
//! A day is one of Korea (UTC+9, without summer time).

mod networks;

use super::store::{CountedViews, MarketStore};
use super::types::MarketId;
use crate::accounts::UserId;
use crate::ops::thread::Joined;
use crate::store::Result;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use networks::{Networks, network};
use parking_lot::{RwLock, RwLockReadGuard};
use siphasher::sip128::{Hasher128 as _, SipHasher13};
use std::collections::{HashMap, HashSet};
use std::hash::Hasher as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Views that may wait: some 400 KB.
const QUEUE: usize = 8192;
/// Views of one network that may wait, so that a network with many views leaves room for others.
const QUEUE_OF_NETWORK: u16 = (QUEUE / 4) as u16;
/// Views of one transaction.
const BATCH: usize = 1024;
/// Time for which views are gathered for one transaction.
const GATHER: Duration = Duration::from_millis(500);
/// Views remembered as counted, so that repeated ones cost no SQL: some 2 MB.
const REMEMBERED: usize = 32_768;
/// Views of one network that are counted on one day: more than those of fifty people.
const OF_NETWORK: u16 = 1000;
/// Kinds of browser of one address.
const BROWSERS: u64 = 16;
/// Rows of past days that one transaction folds.
const SETTLED_AT_ONCE: usize = 4096;
/// Attempts to write a batch.
const TRIES: u32 = 4;
/// Pause after the first failed attempt; grows linearly.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// Pause after a failed reload of the markets.
const RELOAD_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A view of a market.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct View {
    /// The day in Korea, since 1970-01-01.
    pub(super) day: u32,
    pub(super) market: MarketId,
    /// A keyed hash of the visitor.
    pub(super) visitor: [u8; 16],
    /// A keyed hash of the visitor's network.
    network: u64,
}

/// The viewer of a market.
#[derive(Clone, Copy)]
pub(super) enum Visitor<'a> {
    User(UserId),
    /// A visitor without a token: the `User-Agent`.
    Browser(&'a [u8]),
}

/// The day in Korea at this time.
pub(super) fn korean_day(now: SystemTime) -> u32 {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    u32::try_from((seconds + 9 * 3600) / 86_400).unwrap_or(u32::MAX)
}

impl View {
    pub(super) fn new(
        key: &[u8; 16],
        day: u32,
        market: MarketId,
        address: IpAddr,
        visitor: Visitor<'_>,
    ) -> Self {
        let network = network(address).to_string();
        let mut hash = SipHasher13::new_with_key(key);
        hash.write(b"n");
        hash.write(network.as_bytes());
        let visitor = visitor_hash(key, day, &network, visitor);
        Self { day, market, visitor, network: hash.finish128().h1 }
    }
}

/// The keyed hash of a visitor on this day.
fn visitor_hash(key: &[u8; 16], day: u32, network: &str, visitor: Visitor<'_>) -> [u8; 16] {
    let mut hash = SipHasher13::new_with_key(key);
    hash.write(&day.to_le_bytes());
    match visitor {
        Visitor::User(id) => {
            hash.write(b"u");
            hash.write(&id.to_le_bytes());
        }
        Visitor::Browser(agent) => {
            let mut kind = SipHasher13::new_with_key(key);
            kind.write(agent);
            let kind = kind.finish128().h1 % BROWSERS;
            hash.write(b"b");
            hash.write(network.as_bytes());
            hash.write(&kind.to_le_bytes());
        }
    }
    hash.finish128().as_bytes()
}

/// Outcomes of views.
#[derive(Default)]
pub(super) struct ViewMetrics {
    pub(super) counted: u64,
    /// Views of visitors already counted on their day.
    pub(super) repeated: u64,
    /// Views not counted: the queue was full, the store failed, or the network had too many.
    pub(super) dropped: u64,
    /// Views waiting to be counted.
    pub(super) pending: u64,
}

/// The counts, and the queue of views.
#[derive(Debug)]
pub(super) struct Views {
    counts: RwLock<HashMap<MarketId, u64>>,
    queue: Sender<Message>,
    /// The markets in memory are older than those in the store.
    outdated: AtomicBool,
    waiting: Networks,
    /// Views taken off the queue and not yet settled.
    taken: AtomicU64,
    counted: AtomicU64,
    repeated: AtomicU64,
    dropped: AtomicU64,
}

enum Message {
    View(View),
    /// Check `Views::outdated`.
    Check,
    Stop,
}

/// The thread that counts. Dropping it writes waiting views and ends the thread.
#[derive(Debug)]
pub struct Counting {
    queue: Sender<Message>,
    _thread: Joined,
}

impl Drop for Counting {
    fn drop(&mut self) {
        // Waits for room; fails only if the thread has ended.
        let _ = self.queue.send(Message::Stop);
    }
}

impl Views {
    /// Starts the thread; `reload` reads the markets anew.
    pub(super) fn start(
        store: MarketStore,
        reload: impl Fn() -> Result<()> + Send + 'static,
    ) -> std::io::Result<(Arc<Views>, Counting)> {
        let (views, queue, worker) = Self::prepare(store, OF_NETWORK, reload)?;
        let sender = views.queue.clone();
        let _thread = Joined::spawn("market-views", move || worker.work(&queue))?;
        Ok((views, Counting { queue: sender, _thread }))
    }

    fn prepare(
        store: MarketStore,
        of_network: u16,
        reload: impl Fn() -> Result<()> + Send + 'static,
    ) -> std::io::Result<(Arc<Views>, Receiver<Message>, Worker)> {
        let (queue, receiver) = bounded(QUEUE);
        let views = Arc::new(Views {
            counts: RwLock::default(),
            queue,
            outdated: AtomicBool::new(false),
            waiting: Networks::new(QUEUE_OF_NETWORK),
            taken: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let worker = Worker {
            store,
            views: Arc::clone(&views),
            reload: Box::new(reload),
            runtime,
            remembered: HashSet::new(),
            today: 0,
            networks: Networks::new(of_network),
        };
        Ok((views, receiver, worker))
    }

    /// The view count of a market.
    pub(super) fn count(&self, market: MarketId) -> u64 {
        self.counts().get(&market).copied().unwrap_or(0)
    }

    /// The view counts of all markets that were ever viewed.
    pub(super) fn counts(&self) -> RwLockReadGuard<'_, HashMap<MarketId, u64>> {
        self.counts.read()
    }

    /// Takes counts from the store: other nodes count as well.
    pub(super) fn set_counts(&self, counts: impl IntoIterator<Item = (MarketId, u64)>) {
        self.counts.write().extend(counts);
    }

    /// Requests a reload of the markets.
    pub(super) fn reload(&self) {
        self.outdated.store(true, SeqCst);
        // If the queue is full, the thread is running and will check.
        let _ = self.queue.try_send(Message::Check);
    }

    /// Queues a view, or drops it.
    pub(super) fn seen(&self, view: View) {
        if !self.waiting.take(&view) {
            self.dropped.fetch_add(1, Relaxed);
        } else if self.queue.try_send(Message::View(view)).is_err() {
            self.waiting.give_back(&view);
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn metrics(&self) -> ViewMetrics {
        ViewMetrics {
            counted: self.counted.load(Relaxed),
            repeated: self.repeated.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            pending: self.queue.len() as u64 + self.taken.load(Relaxed),
        }
    }
}

struct Worker {
    store: MarketStore,
    views: Arc<Views>,
    reload: Box<dyn Fn() -> Result<()> + Send>,
    runtime: tokio::runtime::Runtime,
    /// Views of `today` that are surely in the store.
    remembered: HashSet<(MarketId, [u8; 16])>,
    /// The newest day of a view.
    today: u32,
    networks: Networks,
}

impl Worker {
    fn work(mut self, queue: &Receiver<Message>) {
        self.turn_to(korean_day(SystemTime::now()));
        loop {
            let failed = self.reload_if_outdated().is_err();
            let longest = if failed { RELOAD_AGAIN_AFTER } else { Duration::MAX };
            match queue.recv_timeout(longest) {
                Ok(Message::View(first)) => {
                    let (batch, stop) = gather(first, queue, &self.views);
                    self.count(batch);
                    if stop {
                        break;
                    }
                }
                Ok(Message::Check) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // Later views are lost, but the server has stopped before.
    }

    fn reload_if_outdated(&self) -> Result<()> {
        if !self.views.outdated.swap(false, SeqCst) {
            return Ok(());
        }
        let done = (self.reload)();
        if let Err(error) = &done {
            tracing::warn!(%error, "cannot read the markets that were imported; trying again");
            self.views.outdated.store(true, SeqCst);
        }
        done
    }

    fn count(&mut self, batch: Vec<View>) {
        let taken = batch.len() as u64;
        if let Some(newest) = batch.iter().map(|view| view.day).max()
            && newest > self.today
        {
            self.turn_to(newest);
        }
        let mut new = batch;
        let mut of_batch = HashSet::with_capacity(new.len());
        new.retain(|view| {
            let is_known =
                view.day == self.today && self.remembered.contains(&(view.market, view.visitor));
            !is_known && of_batch.insert(*view)
        });
        let repeated = taken - new.len() as u64;
        self.views.repeated.fetch_add(repeated, Relaxed);
        let wanted = new.len() as u64;
        new.retain(|view| self.networks.take(view));
        self.views.dropped.fetch_add(wanted - new.len() as u64, Relaxed);
        if !new.is_empty() {
            self.write(&new);
        }
        self.views.taken.fetch_sub(taken, Relaxed);
    }

    fn write(&mut self, new: &[View]) {
        for attempt in 1..=TRIES {
            match self.runtime.block_on(self.store.count_views(new.to_vec())) {
                Ok(done) => return self.show(new, &done),
                Err(error) if attempt == TRIES => {
                    tracing::warn!(%error, views = new.len(), "views of markets were not counted");
                }
                Err(_) => std::thread::sleep(TRY_AGAIN_AFTER * attempt),
            }
        }
        self.views.dropped.fetch_add(new.len() as u64, Relaxed);
        new.iter().for_each(|view| self.networks.give_back(view));
    }

    fn show(&mut self, new: &[View], done: &CountedViews) {
        let repeated = &done.repeated;
        self.views.counted.fetch_add((new.len() - repeated.len()) as u64, Relaxed);
        self.views.repeated.fetch_add(repeated.len() as u64, Relaxed);
        repeated.iter().for_each(|view| self.networks.give_back(view));
        self.views.set_counts(done.counts.iter().copied());
        if self.remembered.len() + new.len() > REMEMBERED {
            self.remembered.clear();
        }
        let of_today = new.iter().filter(|view| view.day == self.today);
        self.remembered.extend(of_today.map(|view| (view.market, view.visitor)));
    }

    /// Begins a day: clears the state of the last one, and folds the days before that. Yesterday's rows stay, because
    /// views of its last moments may still arrive.
    fn turn_to(&mut self, day: u32) {
        self.today = day;
        self.remembered.clear();
        self.networks.clear();
        let before = day.saturating_sub(1);
        loop {
            match self.runtime.block_on(self.store.settle_views(before, SETTLED_AT_ONCE)) {
                Ok(SETTLED_AT_ONCE) => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, "views of earlier days are kept until tomorrow");
                    break;
                }
            }
        }
    }
}

/// The batch of views that arrive within [`GATHER`]; true at the end of the queue.
fn gather(first: View, queue: &Receiver<Message>, views: &Views) -> (Vec<View>, bool) {
    let take = |view: View| {
        views.waiting.give_back(&view);
        views.taken.fetch_add(1, Relaxed);
        view
    };
    let mut batch = vec![take(first)];
    let until = Instant::now() + GATHER;
    while batch.len() < BATCH {
        match queue.recv_deadline(until) {
            Ok(Message::View(view)) => batch.push(take(view)),
            // The loop checks after this batch.
            Ok(Message::Check) => {}
            Err(RecvTimeoutError::Timeout) => return (batch, false),
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return (batch, true),
        }
    }
    (batch, false)
}

#[cfg(test)]
mod tests;
