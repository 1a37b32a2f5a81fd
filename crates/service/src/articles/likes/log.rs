//! The log of likes: the one row that a batch writes before it is acknowledged.
//!
//! A like written to its tables dirties four pages: its row, its article's, and two of the index by likes.
//! Spread over many articles the likes of a batch have none of them in common, and those who wait do so
//! for the sync of all of them. Here a batch is one row at the end of one table, some four bytes a like.
//! Their tables follow in [`pass`](super::pass).

use super::batch::{OfArticle, Sorted};
use super::pairs::Pair;
use super::pending::PendingLikes;
use super::record;
use super::store::exists;
use super::{Like, LikeError, Liked};
use crate::accounts::{self, UserId};
use crate::articles::store::{counts, likes};
use crate::articles::types::{ArticleId, Counts};
use crate::store::{Conn, Result, StoreError, Tx, columns, params};
use std::collections::{BTreeMap, HashMap};

/// What a transaction has logged.
#[derive(Debug, Default)]
pub(super) struct Logged {
    /// What each like is answered, in the order of the batch.
    pub(super) answers: Vec<Result<Liked, LikeError>>,
    /// Pairs that changed, in the order of the tables, and how they are now.
    pub(super) pairs: Vec<(Pair, bool)>,
    /// The articles, and their counts as the tables have them.
    pub(super) stored: Vec<(ArticleId, Counts)>,
    /// The row, if anything changed.
    pub(super) row: Option<i64>,
    /// Pairs in the log because of it.
    pub(super) changes: u64,
}

/// Logs likes, as if one after another. A like of an article or by a user that is not there is refused for
/// itself.
pub(super) fn log(tx: &Tx<'_>, likes: &[Like], pending: &PendingLikes) -> Result<Logged> {
    let mut logged =
        Logged { answers: vec![Err(LikeError::NoArticle); likes.len()], ..Logged::default() };
    let mut users = HashMap::with_capacity(likes.len().min(256));
    for of_article in Sorted::new(likes).articles() {
        decide(tx, &of_article, pending, &mut users, &mut logged)?;
    }
    if !logged.pairs.is_empty() {
        let insert = "INSERT INTO like_log (likes) VALUES (?)";
        logged.row = Some(tx.insert(insert, params![record::write(&logged.pairs)])?);
        logged.changes = logged.pairs.len() as u64;
    }
    Ok(logged)
}

fn decide(
    tx: &Tx<'_>,
    of_article: &OfArticle<'_>,
    pending: &PendingLikes,
    users: &mut HashMap<UserId, bool>,
    logged: &mut Logged,
) -> Result<()> {
    let article = of_article.article();
    // Always asked: it says whether there is such an article.
    let Some(stored) = counts(tx, article)? else { return Ok(()) };
    let mut before = HashMap::new();
    for (user, fold) in of_article.folded() {
        if !exists(tx, user, users)? {
            continue;
        }
        let was = match pending.state(article, user) {
            Some(liked) => liked,
            None => likes(tx, article, user)?,
        };
        let is = fold.applied_to(was);
        if is != was {
            logged.pairs.push(((article, user), is));
        }
        before.insert(user, was);
    }
    let now = Counts { likes: pending.likes(article).unwrap_or(stored.likes), ..stored };
    for (at, answer) in of_article.answers(now, before) {
        logged.answers[at] = answer.ok_or(LikeError::NoUser);
    }
    logged.stored.push((article, stored));
    Ok(())
}

/// How every pair of the log is after all of it.
#[derive(Debug, Default)]
pub(super) struct Folded {
    /// In the order of the tables.
    pub(super) pairs: BTreeMap<Pair, bool>,
    /// The last row, if there is any.
    pub(super) last: Option<i64>,
    /// Pairs in its rows, each as often as it is there.
    pub(super) changes: u64,
}

/// Reads the log.
pub(super) fn read(conn: &Conn<'_>) -> Result<Folded> {
    let mut folded = Folded::default();
    let rows = "SELECT seq, likes FROM like_log ORDER BY seq";
    conn.rows(rows, &[], |row| {
        let (seq, likes): (i64, Vec<u8>) = columns(row)?;
        let pairs = record::read(&likes).map_err(|error| {
            StoreError::Corrupt(format!("row {seq} of the log of likes cannot be read: {error}"))
        })?;
        folded.changes += pairs.len() as u64;
        folded.pairs.extend(pairs);
        folded.last = Some(seq);
        Ok(())
    })?;
    Ok(folded)
}

/// What of the log is not in the tables, as if it had just been logged: for a process that starts and cannot
/// apply it. What is of an absent article or by an absent user would be refused, so it is not there.
pub(super) fn not_applied(conn: &Conn<'_>, folded: &Folded) -> Result<Logged> {
    let mut logged = Logged { row: folded.last, changes: folded.changes, ..Logged::default() };
    let mut known = None;
    for (&(article, user), &liked) in &folded.pairs {
        if known.is_none_or(|(of, _)| of != article) {
            let stored = counts(conn, article)?;
            logged.stored.extend(stored.map(|stored| (article, stored)));
            known = Some((article, stored.is_some()));
        }
        let there = known.is_some_and(|(_, there)| there) && accounts::exists(conn, user)?;
        if there && likes(conn, article, user)? != liked {
            logged.pairs.push(((article, user), liked));
        }
    }
    Ok(logged)
}

/// Takes away rows up to this one.
pub(super) fn delete(tx: &Tx<'_>, last: i64) -> Result<()> {
    tx.run("DELETE FROM like_log WHERE seq <= ?", params![last])?;
    Ok(())
}
