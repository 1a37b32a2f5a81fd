//! Settings of likes.

use super::cache::{SERVERS, servers};
use super::keys::{Key, choice, key, positive};
use madang_valkey::Url;
use std::time::Duration;

/// `likes.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LikeSettings {
    /// How a like reaches the store.
    pub write: LikesWrite,
    /// With [`LikesWrite::Stream`] or [`LikesWrite::Queue`]: one server, or nodes of a cluster.
    pub url: Vec<Url>,
    /// With [`LikesWrite::Queue`]: time between two flushes.
    pub queue_flush: Duration,
}

/// How a like reaches the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LikesWrite {
    /// Each with a commit of its own.
    Direct,
    /// As documented: acknowledged from memory or from a set in Valkey, written every so often; what is in memory is lost
    /// in a crash.
    Queue,
    /// Through a stream in Valkey, from where they get into the tables.
    Stream,
    /// Acknowledged after a commit that it shares with those that came meanwhile.
    Behind,
    /// Not at all: the cost of everything but storing, to measure the others against.
    Discard,
}

impl LikeSettings {
    pub(super) fn blank() -> Self {
        Self { write: LikesWrite::Behind, url: Vec::new(), queue_flush: Duration::ZERO }
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
            LikesWrite::Direct | LikesWrite::Behind | LikesWrite::Stream => Vec::new(),
        }
    }
}

pub(super) const KEYS: &[Key] = &[
    key!(
        "likes.write" = "behind",
        "direct, behind, stream, queue or discard",
        "Method of storing likes; behind = commits shared by all that wait; direct = one commit each; stream = acknowledged by the server of likes.url and written within a second (MariaDB only); queue (documented system; unsafe) = acknowledged from memory, or by the server of likes.url, and written later; discard (unsafe) = not stored, to measure the rest",
        |s, v| s.likes.write = write(v)?
    ),
    Key {
        // It may hold a password.
        secret: true,
        ..key!(
            "likes.url" = "",
            SERVERS,
            "Valkey or Redis (7.0 or newer) of likes.write = stream or queue; for stream with appendonly yes, appendfsync always and without eviction: what it loses before it is in the tables is lost",
            |s, v| s.likes.url = servers(v)?
        )
    },
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
            ("stream", LikesWrite::Stream),
            ("discard", LikesWrite::Discard),
        ],
    )
}
