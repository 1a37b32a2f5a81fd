//! The poller: a thread and a session of its own that learns what all nodes have written, and tells this one.

use super::freshness::now;
use super::servers::ServerEpoch;
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

/// Time between two renewals of the lane, and between two looks for rows that nobody needs any longer.
const RENEW_EVERY: Duration = Duration::from_secs(5);
const CLEAN_EVERY: Duration = Duration::from_secs(60);
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// Stands for the history where rows of the outbox say their lane.
const HISTORY: u8 = u8::MAX;
/// Runs of a server whose beginnings are this close, in seconds, are one: it says how long it has run in whole seconds.
const SAME_RUN: i64 = 3;
/// A server that has run for less than since the last poll, and this, was started meanwhile.
const SLACK: Duration = Duration::from_secs(2);

/// Ends with it.
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
                session: None,
                epoch: ServerEpoch::default(),
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
        self.shared.freshness.wake();
    }
}

struct Work {
    shared: Arc<Shared>,
    follower: Follower,
    session: Option<Session>,
    /// The server that it was made with.
    epoch: ServerEpoch,
    /// The history that the last poll told.
    known: u64,
    /// When the last poll was answered.
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
                // A session whose poll has failed may have an answer on its way.
                if self.session.take().is_some() {
                    self.shared.servers.leave(self.epoch, &error);
                }
                tracing::debug!(%error, "cannot ask what is new");
                std::thread::sleep(AFTER_FAILURE);
            }
        }
    }

    fn poll(&mut self) -> Result<()> {
        self.connect()?;
        let Some(session) = &self.session else { return Ok(()) };
        let began = now();
        let wanted = self.follower.wanted();
        let history = format!(" UNION ALL SELECT {HISTORY}, history, NULL FROM madang_cluster");
        let rows = session.text(&(query("effects", wanted) + &history))?;
        self.last = Some(Instant::now());
        let mut poll = read(&rows)?;
        self.known = poll.history;
        let own = self.shared.outbox.own();
        if wanted.is_some() {
            // Noted at their commits.
            let own = poll.rows.iter_mut().filter(|row| Some(row.lane) == own);
            own.for_each(|row| row.ends = Some(Vec::new()));
        }
        match self.follower.apply(poll, &self.shared.reach) {
            Applied::News(news) => {
                // This node has applied its own after their commits.
                let news = news.iter().filter(|(lane, _)| Some(*lane) != own);
                news.for_each(|(_, effects)| effects.apply(&self.shared.memory));
                self.shared.freshness.polled(began);
            }
            Applied::StartAgain => {
                tracing::warn!(
                    "the database has forgotten something, or this node has missed it: it starts again"
                );
                self.shared.freshness.lost();
                self.shared.memory.forget()?;
            }
        }
        Ok(())
    }

    /// Connects, and finds out whether it is still the same server with the same history.
    fn connect(&mut self) -> Result<()> {
        if self.session.is_some() && self.epoch == self.shared.servers.epoch() {
            return Ok(());
        }
        self.session = None;
        let servers = &self.shared.servers;
        let purpose = if servers.are_many() { Use::Polls } else { Use::Writes };
        let (session, epoch) = servers.connect(purpose)?;
        self.epoch = epoch;
        // What one server of a cluster has forgotten, it is sent by the others before it serves again.
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

    /// Keeps the lane, and takes away what all nodes have seen for long.
    fn keep(&mut self) {
        let Some(session) = &self.session else { return };
        let shared = &self.shared;
        // Also of a node that writes nothing: others see by its lane that it runs.
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

/// Begins another history if the server runs anew: what it remembers may be less than what nodes have seen. Of several
/// nodes that notice, one does. The servers of a cluster that replicates by certification are one.
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

/// Takes away rows older than ten minutes that no gap comes before, and says up to where.
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

/// The rows of such a query, with the lane and the effects of each.
pub(super) fn read(rows: &[mysql::Row]) -> Result<Poll<(u8, Effects)>> {
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
                poll.rows.push(Row { lane, number, ends, payload: (lane, effects) });
            }
        }
    }
    Ok(poll)
}
