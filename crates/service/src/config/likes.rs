//! Settings of likes.

use super::keys::{Key, choice, key, positive};
use std::time::Duration;

/// `likes.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LikeSettings {
    /// How a like reaches the store.
    pub write: LikesWrite,
    /// With [`LikesWrite::Queue`]: time between two flushes.
    pub queue_flush: Duration,
}

/// How a like reaches the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LikesWrite {
    /// Each with a commit of its own.
    Direct,
    /// As documented: acknowledged from memory, written every so often; what is in memory is lost in a crash.
    Queue,
    /// Acknowledged after a commit that it shares with those that came meanwhile.
    Behind,
    /// Not at all: the cost of everything but storing, to measure the others against.
    Discard,
}

impl LikeSettings {
    pub(super) fn blank() -> Self {
        Self { write: LikesWrite::Behind, queue_flush: Duration::ZERO }
    }

    /// Values that lose acknowledged likes.
    pub(super) fn unsafe_values(&self) -> Vec<(&'static str, &'static str)> {
        match self.write {
            LikesWrite::Queue => {
                vec![(
                    "likes.write",
                    "a crash loses the likes acknowledged within the last likes.queue_flush",
                )]
            }
            LikesWrite::Discard => vec![("likes.write", "likes are acknowledged and not stored")],
            LikesWrite::Direct | LikesWrite::Behind => Vec::new(),
        }
    }
}

pub(super) const KEYS: &[Key] = &[
    key!(
        "likes.write" = "behind",
        "direct, queue, behind or discard",
        "Method of storing likes; behind = commits shared by all that wait; direct = one commit each; queue (documented system; unsafe) = acknowledged from memory and written later; discard (unsafe) = not stored, to measure the rest",
        |s, v| s.likes.write = write(v)?
    ),
    key!(
        "likes.queue_flush" = "60s",
        "a duration: 5s, 60s",
        "Time between two writes of acknowledged likes with likes.write = queue",
        |s, v| s.likes.queue_flush = positive(v)?
    ),
];

fn write(value: &str) -> Result<LikesWrite, String> {
    choice(
        value,
        &[
            ("direct", LikesWrite::Direct),
            ("queue", LikesWrite::Queue),
            ("behind", LikesWrite::Behind),
            ("discard", LikesWrite::Discard),
        ],
    )
}
