//! One node's knowledge of the outbox.

use crate::planted::{Mistake, planted};
use crate::position::{Position, Progress};
use crate::timing::{Moment, Timing};
use crate::versions::Versions;

/// Rows of one poll that share a version when a node starts: the fewer, the more bodies of others it may use.
const CHUNK: usize = 64;

/// Stands for everything a write may end. Names are hashed onto few buckets; that two names share one only ends
/// more than necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StampBucket(usize);

impl StampBucket {
    /// The bucket of a name among so many, the same on every node and in every version: FNV-1a
    /// (draft-eastlake-fnv-21), of which the standard library's hashes promise neither.
    pub fn for_name(name: &str, buckets: usize) -> StampBucket {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        StampBucket(usize::try_from(hash % buckets.max(1) as u64).unwrap_or(0))
    }
}

/// A row of the outbox: the effects of one transaction, or nothing, where a number was not used.
#[derive(Clone, Debug)]
pub struct Row<P> {
    /// Whose number it is.
    pub lane: u8,
    /// From 1.
    pub number: u64,
    /// What the transaction ended.
    pub ends: Vec<StampBucket>,
    /// What else the nodes must know, such as a token that is no longer valid.
    pub payload: P,
}

/// What a poll has to ask for.
#[derive(Debug)]
pub enum Wanted<'node> {
    /// All rows there are, and whatever else a starting node has to read, in the same session and before it.
    Everything,
    /// Rows of each lane, known or not, above this number.
    Above(&'node Position),
}

/// A complete answer of the primary to [`Wanted`].
#[derive(Clone, Debug)]
pub struct Poll<P> {
    /// When it was begun; if it was read in pages, the first.
    pub began: Moment,
    /// Which history the server remembers.
    pub history: u64,
    /// For each lane the number up to which rows have been deleted; read together with the rows or after them.
    pub marks: Position,
    /// In the order of their making, as far as that is known.
    pub rows: Vec<Row<P>>,
}

/// What a poll led to.
#[derive(Debug, PartialEq, Eq)]
pub enum Applied<P> {
    /// These are new, each given once.
    News(Vec<P>),
    /// What this node remembers may be wrong: it forgets everything and asks for [`Wanted::Everything`]. Until
    /// that is applied it is not fresh.
    StartAgain,
}

/// The buckets of something, as they were when it was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamps(Vec<(StampBucket, u64)>);

/// Since when something is as it is: goes with a body into the shared tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The history it belongs to.
    pub history: u64,
    /// The numbers whose effects it contains at least.
    pub position: Position,
}

/// One node's knowledge of the outbox.
#[derive(Debug)]
pub struct Follower {
    timing: Timing,
    seen: Progress,
    /// Of which history; none while the node has to start (again).
    history: Option<u64>,
    /// When the latest complete poll began.
    polled_from: Option<Moment>,
    /// One for each poll that brought something.
    versions: Versions<()>,
    /// For each bucket the version at which it last ended.
    buckets: Vec<u64>,
}

impl Follower {
    /// A node that has seen nothing yet.
    pub fn new(buckets: usize, timing: Timing) -> Self {
        Self {
            timing,
            seen: Progress::default(),
            history: None,
            polled_from: None,
            versions: Versions::default(),
            buckets: vec![0; buckets],
        }
    }

    /// What the next poll has to ask for.
    pub fn wanted(&self) -> Wanted<'_> {
        match self.history {
            None => Wanted::Everything,
            Some(_) => Wanted::Above(self.seen.closed()),
        }
    }

    /// Learns what a poll has answered. An answer to [`Wanted::Everything`] starts the node.
    pub fn apply<P>(&mut self, poll: Poll<P>) -> Applied<P> {
        match self.history {
            None => self.start(&poll),
            Some(history) if self.is_lost(history, &poll) => {
                self.history = None;
                self.polled_from = None;
                // Loads in flight must not store what they bring.
                self.end_everything();
                return Applied::StartAgain;
            }
            Some(_) => {}
        }
        let chunk = if self.polled_from.is_none() { CHUNK } else { usize::MAX };
        let mut news = Vec::new();
        let mut rows = poll.rows.into_iter().peekable();
        while rows.peek().is_some() {
            let mut ended = Vec::new();
            let before = news.len();
            for row in rows.by_ref().take(chunk) {
                if self.add(row.lane, row.number) {
                    ended.extend(row.ends);
                    news.push(row.payload);
                }
            }
            if news.len() > before {
                let version = self.next_version();
                ended.into_iter().for_each(|StampBucket(bucket)| self.buckets[bucket] = version);
            }
        }
        self.polled_from = self.polled_from.max(Some(poll.began));
        Applied::News(news)
    }

    fn add(&mut self, lane: u8, number: u64) -> bool {
        let new = self.seen.add(lane, number);
        if planted(Mistake::ForgetGaps) {
            self.seen.forget_gaps();
        }
        new
    }

    /// Whether this node missed something, or remembers what the server does not.
    fn is_lost<P>(&self, history: u64, poll: &Poll<P>) -> bool {
        let behind = !self.seen.closed().reaches(&poll.marks) && !planted(Mistake::IgnoreMarks);
        let changed = history != poll.history && !planted(Mistake::IgnoreHistory);
        behind || changed
    }

    /// Everything before the deletion marks may have ended any bucket; what came later is among the rows.
    fn start<P>(&mut self, poll: &Poll<P>) {
        let marks =
            if planted(Mistake::StartAtZero) { Position::default() } else { poll.marks.clone() };
        self.seen = Progress::up_to(&marks);
        self.history = Some(poll.history);
        self.end_everything();
    }

    fn end_everything(&mut self) {
        self.versions.forget();
        let version = self.next_version();
        self.buckets.fill(version);
    }

    fn next_version(&mut self) -> u64 {
        let ended =
            if planted(Mistake::EndAtClosed) { self.seen.closed() } else { self.seen.highest() };
        self.versions.next(ended.clone(), ())
    }

    /// Whether this node may use what it remembers for a request that arrived then. If not, the request waits
    /// for a poll, for a bounded time.
    ///
    /// The clock is read after the head of the request has been, so that a stall before that does no harm.
    pub fn is_fresh(&self, arrival: Moment) -> bool {
        self.history.is_some()
            && self.polled_from.is_some_and(|from| self.timing.covers(from, arrival))
    }

    /// These buckets as they are now, to be read *before* a load begins.
    pub fn stamps(&self, buckets: &[StampBucket]) -> Stamps {
        Stamps(buckets.iter().map(|bucket| (*bucket, self.buckets[bucket.0])).collect())
    }

    /// Whether nothing has ended them since. Asked before something is stored, kept, joined and given out.
    pub fn unmoved(&self, stamps: &Stamps) -> bool {
        stamps.0.iter().all(|(bucket, then)| self.buckets[bucket.0] == *then)
    }

    /// The label of a load that begins now.
    pub fn label(&self) -> Label {
        let highest = planted(Mistake::ClaimHighest);
        let position = if highest { self.seen.highest() } else { self.seen.closed() };
        Label { history: self.history.unwrap_or(0), position: position.clone() }
    }

    /// Whether something with this label contains every write that this node knows to have ended these buckets.
    /// Only a node that is [fresh](Self::is_fresh) for a request may decide so for it.
    pub fn admits(&self, label: &Label, buckets: &[StampBucket]) -> bool {
        let version = self.versions.of(&label.position);
        (self.history == Some(label.history) || planted(Mistake::AnyHistory))
            && buckets.iter().all(|bucket| version >= Some(self.buckets[bucket.0]))
    }
}

/// How much of the outbox a replica contains, polled as the primary is.
#[derive(Debug, Default)]
pub struct Replica {
    seen: Progress,
    history: u64,
}

impl Replica {
    /// A replica of which nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Above which numbers rows have to be asked for, those of all lanes.
    pub fn wanted(&self) -> &Position {
        self.seen.closed()
    }

    /// Learns what it answered. What it has deleted it did contain.
    pub fn apply<P>(&mut self, poll: &Poll<P>) {
        if self.history != poll.history {
            *self = Self { seen: Progress::default(), history: poll.history };
        }
        self.seen.pass(&poll.marks);
        for row in &poll.rows {
            self.seen.add(row.lane, row.number);
        }
    }

    /// What it contains at least, from now on.
    pub fn label(&self) -> Label {
        Label { history: self.history, position: self.seen.closed().clone() }
    }
}
