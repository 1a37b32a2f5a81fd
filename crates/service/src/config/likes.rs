//! Settings of likes.

use super::cache::servers;
use super::keys::settings;
use super::value::{time, word};
use madang_valkey::Url;
use serde::Deserialize;
use std::time::Duration;

settings! {
    /// `likes.*`: storing of likes.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LikeSettings {
        write: LikesWrite = "likes.write", "behind",
            word("direct, behind, stream, queue or discard"),
            "Method of storing likes; behind = commits shared by all that wait; direct = one commit each; stream = acknowledged by the server of likes.url and written within a second (MariaDB only); queue (documented system; unsafe) = acknowledged from memory, or by the server of likes.url, and written later; discard (unsafe) = not stored, to measure the rest";
        url: Vec<Url> = secret "likes.url", "", servers(),
            "Valkey or Redis (7.0 or newer) of likes.write = stream or queue; for stream with appendonly yes, appendfsync always and without eviction: what it loses before it is in the tables is lost";
        queue_flush: Duration = "likes.queue_flush", "60s", time(),
            "Time between two writes of acknowledged likes with likes.write = queue";
    }
}

/// Method of storing a like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LikesWrite {
    /// One commit each.
    Direct,
    /// As documented: acknowledged from memory or from a set in Valkey and written periodically; a crash loses those
    /// in memory.
    Queue,
    /// Through a stream in Valkey.
    Stream,
    /// Acknowledged after a commit shared with other likes.
    Behind,
    /// Not stored, to measure the cost of everything else.
    Discard,
}
