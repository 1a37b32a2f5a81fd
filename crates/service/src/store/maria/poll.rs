//! The poller: a thread with its own session that reads what all nodes have written and applies it to memory.

use super::freshness::now;
use super::session::{Session, Use};
use super::{Shared, reach};
use crate::ops::thread::Joined;
use crate::store::sql::params;
use crate::store::{Effects, Result, StoreError};
use madang_positions::{Applied, Follower, Poll, Position, Row};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time between two renewals of the lane.
const RENEW_EVERY: Duration = Duration::from_secs(5);
/// Time between two deletions of old rows.
const CLEAN_EVERY: Duration = Duration::from_secs(60);
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// Lane number of the row with the history in the result of a poll.
const HISTORY: u8 = u8::MAX;
/// Seconds by which two starts of the same run of a server may differ: its uptime is in whole seconds.
const SAME_RUN: i64 = 3;
/// A server whose uptime is less than the time since the last poll, plus this, was started meanwhile.
const SLACK: Duration = Duration::from_secs(2);

/// The thread ends on drop.
pub(super) struct Poller {
    _thread: Joined,
    stop: Arc<AtomicBool>,
    shared: Arc<Shared>,
}

impl Poller {
    pub(super) fn start(shared: &Arc<Shared>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (of_thread, stopped) = (Arc::clone(shared), Arc::clone(&stop));
        let _thread = Joined::spawn("store-poll", move || {
            let mut work = Work {
                shared: of_thread,
                follower: Follower::default(),
                must_forget: false,
                session: None,
                epoch: 0,
                known: 0,
                last: None,
                renewed: Instant::now(),
                cleaned: Instant::now(),
            };
            while !stopped.load(Relaxed) {
                work.turn();
            }
        })?;
        Ok(Self { _thread, stop, shared: Arc::clone(shared) })
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.shared.freshness.want();
    }
}

struct Work {
    shared: Arc<Shared>,
    follower: Follower,
    /// Memory may be wrong, and was not dropped yet.
    must_forget: bool,
    session: Option<Session>,
    /// Epoch of the server of the session.
    epoch: u64,
    /// History of the last poll.
    known: u64,
    /// Time of the last answer to a poll.
    last: Option<Instant>,
    renewed: Instant,
    cleaned: Instant,
}

impl Work {
    fn turn(&mut self) {
        match self.poll() {
            Ok(()) => {
                self.keep();
                self.shared.freshness.until_due();
            }
            Err(error) => {
                // The answer to a failed poll may still arrive in its session.
                if self.session.take().is_some() {
                    self.shared.servers.leave(self.epoch, &error);
                }
                tracing::debug!(%error, "cannot ask what is new");
                std::thread::sleep(AFTER_FAILURE);
            }
        }
    }

    fn poll(&mut self) -> Result<()> {
        self.forget()?;
        self.connect()?;
        let Some(session) = &self.session else { return Ok(()) };
        let began = now();
        let wanted = self.follower.wanted();
        let history = format!(" UNION ALL SELECT {HISTORY}, history, NULL FROM madang_cluster");
        let rows = session.text(&(query("effects", wanted) + &history))?;
        self.last = Some(Instant::now());
        let mut poll = read(&rows)?;
        self.known = poll.history;
        let is_running = wanted.is_some();
        let outbox = &self.shared.outbox;
        for row in poll.rows.iter_mut().filter(|row| outbox.was_applied(row.lane, row.number)) {
            row.payload = None;
            if is_running {
                row.ends = Some(Vec::new());
            }
        }
        let applied = self.follower.apply(poll, &self.shared.reach);
        outbox.polled(self.follower.wanted());
        match applied {
            Applied::News(news) => {
                let news = news.into_iter().flatten();
                news.for_each(|effects| effects.apply(&self.shared.memory));
                self.shared.freshness.polled(began);
            }
            Applied::StartAgain => {
                tracing::warn!(
                    "the database has forgotten something, or this node has missed it: it starts again"
                );
                self.shared.freshness.lost();
                self.must_forget = true;
                self.forget()?;
            }
        }
        Ok(())
    }

    /// Drops what may be wrong from memory. A failure is repeated before the next poll.
    fn forget(&mut self) -> Result<()> {
        if self.must_forget {
            self.shared.memory.forget()?;
            self.must_forget = false;
        }
        Ok(())
    }

    /// Connects, and begins another history if the server was restarted.
    fn connect(&mut self) -> Result<()> {
        if self.session.is_some() && self.epoch == self.shared.servers.epoch() {
            return Ok(());
        }
        self.session = None;
        let servers = &self.shared.servers;
        let purpose = if servers.are_many() { Use::Polls } else { Use::Writes };
        let (session, epoch) = servers.connect(purpose)?;
        self.epoch = epoch;
        // A server of a cluster gets what it has forgotten from the others before it serves again.
        let is_new = match (self.last, session.uptime()?) {
            _ if servers.are_many() => false,
            (Some(last), Some(uptime)) => uptime < last.elapsed() + SLACK,
            (None, _) => false,
            (Some(_), None) => true,
        };
        begin_history(&session, is_new, self.known)?;
        self.session = Some(session);
        Ok(())
    }

    /// Keeps the lane, and deletes rows that all nodes have seen long ago.
    fn keep(&mut self) {
        let Some(session) = &self.session else { return };
        let shared = &self.shared;
        // Also for a node that writes nothing: others see by its lane that it runs.
        let mut kept = shared.outbox.provide(session);
        kept = kept.and_then(|()| shared.outbox.settle_left(session));
        if self.renewed.elapsed() >= RENEW_EVERY {
            self.renewed = Instant::now();
            kept = kept.and_then(|()| shared.outbox.renew(session));
        }
        if self.cleaned.elapsed() >= CLEAN_EVERY {
            self.cleaned = Instant::now();
            if let Some(closed) = self.follower.wanted() {
                kept = kept.and_then(|()| clean(session, closed));
            }
        }
        if let Err(error) = kept {
            tracing::debug!(%error, "the outbox is left as it is for now");
            self.session = None;
        }
    }
}

/// Begins another history if the server was restarted: it may have lost what nodes have seen. Of several nodes that
/// notice, one does. All servers of a Galera cluster are one run.
fn begin_history(session: &Session, is_new: bool, known: u64) -> Result<()> {
    const RUN: &str = "SELECT COALESCE(
        (SELECT CAST(CONV(LEFT(MD5(variable_value), 15), 16, 10) AS SIGNED) FROM information_schema.global_status
          WHERE variable_name = 'WSREP_CLUSTER_STATE_UUID' AND variable_value <> ''),
        (SELECT UNIX_TIMESTAMP() - CAST(variable_value AS SIGNED) FROM information_schema.global_status
          WHERE variable_name = 'UPTIME'))";
    let rows = session.text(RUN)?;
    let run = rows.first().and_then(|row| row.get::<i64, _>(0)).unwrap_or(0);
    let next = fastrand::u64(1..1 << 62);
    let begin = "UPDATE madang_cluster SET history = ?, server_run = ?
         WHERE (? AND history = ?) OR abs(server_run - ?) > ?";
    session.run(begin, params![next, run, is_new, known, run, SAME_RUN]).map(drop)
}

/// Deletes rows older than ten minutes without a gap before them, and moves the deletion marks.
fn clean(session: &Session, closed: &Position) -> Result<()> {
    for (lane, number) in closed.lanes() {
        let old = "SELECT max(number) FROM outbox
             WHERE lane = ? AND number <= ? AND made_at < NOW(6) - INTERVAL 10 MINUTE";
        let last = session.value::<Option<u64>>(old, params![lane, number])?.flatten();
        let Some(last) = last else { continue };
        session.begin_write()?;
        let mark = "UPDATE outbox_lanes SET deleted = GREATEST(deleted, ?) WHERE lane = ?";
        session.run(mark, params![last, lane])?;
        session.run("DELETE FROM outbox WHERE lane = ? AND number <= ?", params![lane, last])?;
        session.commit_write()?;
    }
    Ok(())
}

/// A query, in one snapshot, for the deletion marks and this column of the rows above a position, or of all rows.
pub(super) fn query(column: &str, above: Option<&Position>) -> String {
    let mut query = format!("SELECT lane, number, {column} FROM outbox");
    if let Some(position) = above {
        // No lane has this number.
        let mut others = HISTORY.to_string();
        query.push_str(" WHERE ");
        for (lane, number) in position.lanes() {
            let _ = write!(query, "lane = {lane} AND number > {number} OR ");
            let _ = write!(others, ", {lane}");
        }
        let _ = write!(query, "lane NOT IN ({others})");
    }
    query + " UNION ALL SELECT lane, deleted, NULL FROM outbox_lanes WHERE deleted > 0"
}

/// The rows of such a query, with their effects.
pub(super) fn read(rows: &[mysql::Row]) -> Result<Poll<Option<Effects>>> {
    let mut poll = Poll { history: 0, marks: Position::default(), rows: Vec::new() };
    let wrong = || StoreError::Corrupt("a row of the outbox cannot be read".to_owned());
    for row in rows {
        let lane: u8 = row.get(0).ok_or_else(wrong)?;
        let number: u64 = row.get(1).ok_or_else(wrong)?;
        match row.get::<Option<Vec<u8>>, _>(2).ok_or_else(wrong)? {
            None if lane == HISTORY => poll.history = number,
            None => poll.marks.raise(lane, number),
            Some(bytes) => {
                let effects = Effects::decode(&bytes)?;
                let ends = effects.stamps().map(|stamps| reach::bits(stamps).collect());
                poll.rows.push(Row { lane, number, ends, payload: Some(effects) });
            }
        }
    }
    Ok(poll)
}
