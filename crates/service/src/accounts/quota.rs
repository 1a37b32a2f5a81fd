//! Quotas of stored rows and bytes per user (`limits.rows`, `limits.track_bytes`).
//!
//! Each create counts the user's rows by the index on their owner: stored counters would be one more row that all
//! writes of a user change. The count ends at the quota, so a full account of 1,000 rows costs a scan of 1,000 index
//! entries (some 20 µs).
//!
//! Concurrent creates of one user on several nodes do not see each other, so each of them may exceed the quota by one.

pub(crate) use crate::config::Quota;

use super::UserId;
use crate::store::{ChangeError, Tx, params};

/// A kind of rows that users own.
#[derive(Clone, Copy)]
pub(crate) enum OwnedRows {
    /// Without removed ones.
    Posts,
    Articles,
    Comments,
    Tracks,
    Runs,
}

impl OwnedRows {
    /// The `FROM` clause for the rows of a user, whose id is the only parameter.
    pub(super) const fn of_user(self) -> &'static str {
        match self {
            Self::Posts => "posts WHERE author_id = ? AND removed = 0",
            Self::Articles => "articles WHERE author_id = ?",
            Self::Comments => "article_comments WHERE author_id = ?",
            Self::Tracks => "tracks WHERE owner_id = ?",
            Self::Runs => "track_records WHERE user_id = ?",
        }
    }
}

impl Quota {
    /// Refuses another row of this kind beyond the quota.
    pub(crate) fn room_for_one(
        self,
        tx: &Tx<'_>,
        kind: OwnedRows,
        user: UserId,
    ) -> Result<(), ChangeError> {
        let Some(rows) = self.rows else { return Ok(()) };
        let last = i64::try_from(rows).unwrap_or(i64::MAX) - 1;
        let sql = format!("SELECT 1 FROM {} LIMIT 1 OFFSET ?", kind.of_user());
        if tx.exists(&sql, params![user, last])? { Err(ChangeError::OverQuota) } else { Ok(()) }
    }

    /// Refuses a track with a path of `bytes` beyond the quota.
    pub(crate) fn room_for_track(
        self,
        tx: &Tx<'_>,
        user: UserId,
        bytes: usize,
    ) -> Result<(), ChangeError> {
        self.room_for_one(tx, OwnedRows::Tracks, user)?;
        let Some(most) = self.track_bytes else { return Ok(()) };
        let sql = "SELECT length(p.path) FROM tracks t JOIN track_paths p ON p.track_id = t.id WHERE t.owner_id = ?";
        let held: Vec<u64> = tx.rows(sql, params![user], |row| row.get(0))?;
        let after = held.iter().sum::<u64>().saturating_add(bytes as u64);
        if after > most { Err(ChangeError::OverQuota) } else { Ok(()) }
    }
}
