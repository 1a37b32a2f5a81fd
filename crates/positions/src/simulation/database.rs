//! A database as the protocol sees it: rows of the outbox, the last commit of each key, lanes, marks, and a log that
//! replicas apply later.

use crate::Row;
use crate::position::Position;
use std::collections::{BTreeMap, BTreeSet};

/// Keys that can be read: things, each changed by writes of its own, and a list of all things.
pub const THINGS: usize = 3;
pub const LIST: usize = THINGS;
pub const KEYS: usize = THINGS + 1;
pub const LANES: u8 = 5;
pub const BUCKETS: usize = 16;

/// The stamps that a write on a thing ends: those of its key and of the list.
pub fn ends(thing: usize) -> Vec<u64> {
    vec![thing as u64, LIST as u64]
}

/// A commit, numbered through all histories.
#[derive(Clone, Debug)]
pub struct Commit {
    pub thing: usize,
    /// Time of the failover that lost it.
    pub lost: Option<u64>,
}

#[derive(Clone, Debug)]
pub enum Logged {
    /// A row, and its commit if it is not empty.
    Row {
        lane: u8,
        number: u64,
        commit: Option<usize>,
    },
    Deleted {
        lane: u8,
        until: u64,
    },
    Lane(u8, Lane),
    History(u64),
}

/// A server: the primary, a replica, or one of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Server {
    pub rows: BTreeMap<(u8, u64), Option<usize>>,
    pub marks: Position,
    /// For each key the last commit that changed it, 0 for none.
    pub versions: [usize; KEYS],
    pub history: u64,
    pub lanes: [Lane; LANES as usize],
    /// Number of applied entries of the log.
    pub applied: usize,
}

impl Server {
    pub fn apply(&mut self, entry: &Logged, commits: &[Commit]) {
        match *entry {
            Logged::Row { lane, number, commit } => {
                self.rows.insert((lane, number), commit);
                if let Some(commit) = commit {
                    self.versions[commits[commit].thing] = commit;
                    self.versions[LIST] = commit;
                }
            }
            Logged::Deleted { lane, until } => {
                self.rows.retain(|(other, number), _| *other != lane || *number > until);
                self.marks.raise(lane, until);
            }
            Logged::Lane(lane, now) => self.lanes[usize::from(lane)] = now,
            Logged::History(history) => self.history = history,
        }
        self.applied += 1;
    }

    pub fn catch_up(&mut self, log: &[Logged], commits: &[Commit], until: usize) {
        while self.applied < until {
            self.apply(&log[self.applied], commits);
        }
    }

    /// The rows of these lanes above these numbers.
    pub fn read(
        &self,
        above: &Position,
        lanes: std::ops::Range<u8>,
        commits: &[Commit],
    ) -> Vec<Row<Option<usize>>> {
        let wanted = self
            .rows
            .iter()
            .filter(|((lane, number), _)| lanes.contains(lane) && *number > above.get(*lane));
        wanted
            .map(|((lane, number), commit)| Row {
                lane: *lane,
                number: *number,
                ends: Some(commit.map_or(Vec::new(), |commit| ends(commits[commit].thing))),
                payload: *commit,
            })
            .collect()
    }
}

/// A lane's row.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lane {
    /// Unique for each claim.
    pub epoch: u64,
    pub reserved: u64,
}

/// A number that an open transaction has inserted.
pub type Open = BTreeSet<(u8, u64)>;

#[derive(Debug, Default)]
pub struct Database {
    pub primary: Server,
    pub log: Vec<Logged>,
    pub logged_at: Vec<u64>,
    /// Time of the commit of each row, including deleted rows.
    pub made_at: BTreeMap<(u8, u64), u64>,
    pub commits: Vec<Commit>,
    pub open: Open,
    /// End of the lease of each lane.
    pub leased_until: [u64; LANES as usize],
}

impl Database {
    pub fn new() -> Self {
        let mut database = Self::default();
        // Commit 0 is the initial state.
        database.commits.push(Commit { thing: 0, lost: None });
        database.write(0, Logged::History(1));
        database
    }

    pub fn lane(&self, lane: u8) -> Lane {
        self.primary.lanes[usize::from(lane)]
    }

    /// The last number of a lane that has, or had, a row.
    pub fn last(&self, lane: u8) -> u64 {
        let rows = self.primary.rows.range((lane, 0)..=(lane, u64::MAX));
        rows.last().map_or(0, |((_, number), _)| *number).max(self.primary.marks.get(lane))
    }

    pub fn write(&mut self, now: u64, entry: Logged) {
        self.primary.apply(&entry, &self.commits);
        self.log.push(entry);
        self.logged_at.push(now);
    }

    /// Commits a row. Returns its commit, or the commit of an existing row with the number as an error.
    pub fn commit(
        &mut self,
        now: u64,
        lane: u8,
        number: u64,
        thing: Option<usize>,
    ) -> Result<usize, Option<usize>> {
        if let Some(row) = self.primary.rows.get(&(lane, number)) {
            return Err(*row);
        }
        let commit = thing.map(|thing| {
            self.commits.push(Commit { thing, lost: None });
            self.commits.len() - 1
        });
        self.made_at.insert((lane, number), now);
        self.write(now, Logged::Row { lane, number, commit });
        Ok(commit.unwrap_or(0))
    }

    /// Makes a replica that has applied only so much the primary.
    pub fn fail_over(&mut self, now: u64, kept: usize) {
        for entry in &self.log[kept..] {
            if let Logged::Row { commit: Some(commit), .. } = entry {
                self.commits[*commit].lost = Some(now);
            }
        }
        self.log.truncate(kept);
        self.logged_at.truncate(kept);
        self.primary = Server::default();
        let (log, commits) = (&self.log, &self.commits);
        self.primary.catch_up(log, commits, kept);
        self.open.clear();
        let rows = &self.primary.rows;
        self.made_at.retain(|row, _| rows.contains_key(row));
    }
}
