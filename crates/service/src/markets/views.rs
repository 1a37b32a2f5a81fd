//! Who looked at which market: counted once for each visitor and day, off the path of reading.
//!
//! An answer puts a view on a bounded queue and goes. One thread takes what is there, writes it in one
//! transaction and then shows the new counts; when the queue is full, or a quarter of it holds views of one
//! network, views are dropped and counted. So
//! a crawler costs the readers nothing, and the store a transaction now and then. Views wait for
//! [`GATHER`] at most; a crash loses those. (Likes are promises and go another way.)
//!
//! A visitor is a user, or else an address and a kind of browser. Stored is a keyed hash, another one each
//! day: without the key it says neither who somebody is nor whether they came back. The key derives from
//! the token key, which by default lies beside the database: whoever has both can try addresses and
//! ids of users, and all of IPv4 is tried within minutes. What they learn is who looked at what today and
//! yesterday; rows of earlier days are deleted when they are folded into the counts.
//!
//! A network (an IPv4 address; of IPv6 a /56, which is what one customer gets, RFC 6177 and RIPE-690) has at
//! most [`BROWSERS`] visitors without an account a day, however many browsers it claims to be, so nobody
//! inflates a count by inventing them. And it counts at most [`OF_NETWORK`] views a day over all markets, those
//! of users included, so nobody uses up the day of all others by signing up. There is no bound over all
//! networks, which somebody could use up: as many networks as have a place of their own
//! ([`networks::PLACES`]) have their share each, and that bounds the rows of a day: at 30 bytes a row 3 MB for
//! a hundred networks that use up theirs, 490 MB if 16,384 did.
//!
//! A day is one of Korea (UTC+9, without summer time).

mod networks;

use super::store::{CountedViews, MarketStore};
use super::types::MarketId;
use crate::accounts::UserId;
use crate::ops::thread::Joined;
use crate::store::Result;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use networks::{Networks, Waiting, network};
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
/// Views of one network that may wait, so that one which looks at everything leaves room to others.
const QUEUE_OF_NETWORK: u16 = (QUEUE / 4) as u16;
/// Views of one transaction.
const BATCH: usize = 1024;
/// How long views are gathered for one.
const GATHER: Duration = Duration::from_millis(500);
/// Views remembered as counted, so that looking again costs no SQL: some 2 MB.
const REMEMBERED: usize = 32_768;
/// Views of one network that are counted on one day: more than fifty people look at.
const OF_NETWORK: u16 = 1000;
/// Kinds of browser of one address.
pub const BROWSERS: u64 = 16;
/// Rows of days that are over that one transaction folds.
const SETTLED_AT_ONCE: usize = 4096;
/// How often a batch that the store did not take is tried again, and how long after.
const TRIES: u32 = 4;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// How long after a reload of the markets that failed the next one is tried.
const RELOAD_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// One look at a market.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// The day in Korea, since 1970-01-01.
    pub day: u32,
    /// What was looked at.
    pub market: MarketId,
    /// By whom.
    pub visitor: [u8; 16],
    /// A keyed hash of the network that it comes from.
    pub network: u64,
}

/// Who looks.
#[derive(Clone, Copy, Debug)]
pub enum Visitor<'a> {
    /// Somebody who is logged in.
    User(UserId),
    /// Anybody else: their `User-Agent`.
    Browser(&'a [u8]),
}

/// The day in Korea at this time.
pub fn korean_day(now: SystemTime) -> u32 {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    u32::try_from((seconds + 9 * 3600) / 86_400).unwrap_or(u32::MAX)
}

impl View {
    /// A look at this market from this address.
    pub fn new(
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

/// What a visitor is called on this day.
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

/// What became of views so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewMetrics {
    /// New ones that were written.
    pub counted: u64,
    /// Those that were counted before on their day.
    pub repeated: u64,
    /// Those that were not counted: the queue was full, the store failed, or the network had too many.
    pub dropped: u64,
    /// Those that wait.
    pub pending: u64,
}

/// The counts, and the way to them.
#[derive(Debug)]
pub(super) struct Views {
    counts: RwLock<HashMap<MarketId, u64>>,
    queue: Sender<Message>,
    /// Other markets than those in memory are in the store.
    outdated: AtomicBool,
    waiting: Waiting,
    /// Taken off the queue and not yet settled.
    taken: AtomicU64,
    counted: AtomicU64,
    repeated: AtomicU64,
    dropped: AtomicU64,
}

enum Message {
    View(View),
    /// Look whether anything is outdated.
    Look,
    Stop,
}

/// The thread that counts. Dropping it writes what waits and ends it.
#[derive(Debug)]
pub struct Counting {
    queue: Sender<Message>,
    _thread: Joined,
}

impl Drop for Counting {
    fn drop(&mut self) {
        // Waits for room if there is none; fails only when the thread is gone already.
        let _ = self.queue.send(Message::Stop);
    }
}

impl Views {
    /// Counts on from these; `reload` reads the markets anew, when that is asked for.
    pub(super) fn start(
        store: MarketStore,
        counts: impl IntoIterator<Item = (MarketId, u64)>,
        reload: impl Fn() -> Result<()> + Send + 'static,
    ) -> std::io::Result<(Arc<Views>, Counting)> {
        let (views, queue, worker) = Self::prepare(store, counts, OF_NETWORK, reload)?;
        let sender = views.queue.clone();
        let _thread = Joined::spawn("market-views", move || worker.work(&queue))?;
        Ok((views, Counting { queue: sender, _thread }))
    }

    fn prepare(
        store: MarketStore,
        counts: impl IntoIterator<Item = (MarketId, u64)>,
        of_network: u16,
        reload: impl Fn() -> Result<()> + Send + 'static,
    ) -> std::io::Result<(Arc<Views>, Receiver<Message>, Worker)> {
        let (queue, receiver) = bounded(QUEUE);
        let views = Arc::new(Views {
            counts: RwLock::new(counts.into_iter().collect()),
            queue,
            outdated: AtomicBool::new(false),
            waiting: Waiting::new(QUEUE_OF_NETWORK),
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

    /// How often a market has been viewed.
    pub(super) fn of(&self, market: MarketId) -> u64 {
        self.all().get(&market).copied().unwrap_or(0)
    }

    /// How often each market has been viewed that ever was.
    pub(super) fn all(&self) -> RwLockReadGuard<'_, HashMap<MarketId, u64>> {
        self.counts.read()
    }

    /// Takes counts that are in the store: other nodes count as well.
    pub(super) fn counted(&self, counts: impl IntoIterator<Item = (MarketId, u64)>) {
        self.counts.write().extend(counts);
    }

    /// Has the markets read anew.
    pub(super) fn reload(&self) {
        self.outdated.store(true, SeqCst);
        // When it is full, the thread is at work, and looks.
        let _ = self.queue.try_send(Message::Look);
    }

    /// Counts a view, soon and if it is not too much.
    pub(super) fn seen(&self, view: View) {
        if !self.waiting.joins(&view) {
            self.dropped.fetch_add(1, Relaxed);
        } else if self.queue.try_send(Message::View(view)).is_err() {
            self.waiting.leaves(&view);
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    /// What became of views so far.
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
    /// Views of `today` that are in the store for certain.
    remembered: HashSet<(MarketId, [u8; 16])>,
    /// The newest day that a view was of.
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
                Ok(Message::Look) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // Whoever still puts views here does so in vain: the server has stopped answering before.
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
        self.views.counted(done.counts.iter().copied());
        if self.remembered.len() + new.len() > REMEMBERED {
            self.remembered.clear();
        }
        let of_today = new.iter().filter(|view| view.day == self.today);
        self.remembered.extend(of_today.map(|view| (view.market, view.visitor)));
    }

    /// A new day: what is known of the last one is forgotten, and the days before that are folded. Yesterday
    /// stays, for views of its last moments may still come.
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

/// What comes within [`GATHER`], as far as it fits; and whether there is no more to come.
fn gather(first: View, queue: &Receiver<Message>, views: &Views) -> (Vec<View>, bool) {
    let take = |view: View| {
        views.waiting.leaves(&view);
        views.taken.fetch_add(1, Relaxed);
        view
    };
    let mut batch = vec![take(first)];
    let until = Instant::now() + GATHER;
    while batch.len() < BATCH {
        match queue.recv_deadline(until) {
            Ok(Message::View(view)) => batch.push(take(view)),
            // It is looked after this batch.
            Ok(Message::Look) => {}
            Err(RecvTimeoutError::Timeout) => return (batch, false),
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return (batch, true),
        }
    }
    (batch, false)
}

#[cfg(test)]
mod tests;
