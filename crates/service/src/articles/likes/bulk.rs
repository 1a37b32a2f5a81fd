//! A batch of likes in the tables of a server, in five statements whatever its size: each is a round trip.
//!
//! The articles are locked first, in the order of their ids. So of two batches with an article in common one waits
//! for the other and then sees its result.

use super::batch::{BatchOutcome, decide};
use super::{Like, LikeError, Pair, StoredLike};
use crate::accounts::UserId;
use crate::articles::types::{ArticleId, Counts};
use crate::store::{Conn, Parameter as _, Result, Row, Tx, Value};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Most rows of one statement. Statements have 1, 2, 4 and so on up to this many, the last row repeated: so there are
/// few texts, and they stay prepared.
const MOST: usize = 256;

/// As [`store::apply`](super::store::apply).
pub(super) fn apply(tx: &Tx<'_>, likes: &[Like]) -> Result<BatchOutcome> {
    let held = counts(tx, likes, " FOR UPDATE")?;
    let known = existing(tx, likes, " LOCK IN SHARE MODE")?;
    let can_exist = |like: &&Like| held.contains_key(&like.article) && known.contains(&like.user);
    let there = liked(tx, likes.iter().filter(can_exist))?;
    let was_liked = |(article, user): Pair, _| {
        Ok(known.contains(&user).then(|| there.contains(&[article, user])))
    };
    let outcome = decide(likes, |article| Ok(held.get(&article).copied()), was_liked)?;

    let rows = |wanted: bool| -> Vec<[i64; 2]> {
        let changes = outcome.changes.iter().filter(|(_, liked)| *liked == wanted);
        changes.map(|((article, user), _)| [*article, *user]).collect()
    };
    let counted = outcome.counts.iter().filter(|(_, before, after)| before.likes != after.likes);
    let counted = counted.map(|(id, _, now)| [*id, i64::try_from(now.likes).unwrap_or(i64::MAX)]);
    write(tx, &rows(true), &rows(false), &counted.collect::<Vec<_>>())?;
    Ok(outcome)
}

/// Largest like count of an article whose likers are all read: its next likes then need no query.
const FEW: u64 = 1000;

/// The tables' state of a pair before a like.
#[derive(Clone, Debug)]
pub(super) struct Base {
    pub(super) stored: StoredLike,
    /// Users who like the article; only with one of its likes, and only up to [`FEW`].
    pub(super) likers: Option<Vec<UserId>>,
}

/// Reads the state of these pairs, in four statements or a few more.
pub(super) fn look(conn: &Conn<'_>, likes: &[Like]) -> Result<Vec<Result<Base, LikeError>>> {
    let counts = counts(conn, likes, "")?;
    let known = existing(conn, likes, "")?;
    let has_many = |like: &&Like| counts.get(&like.article).is_some_and(|now| now.likes > FEW);
    let mut there = liked(conn, likes.iter().filter(has_many))?;
    let few = counts.iter().filter(|(_, counts)| counts.likes <= FEW);
    let few: Vec<_> = few.map(|(id, _)| [*id]).collect();
    let mut all: HashMap<ArticleId, Vec<UserId>> =
        few.iter().map(|[article]| (*article, Vec::new())).collect();
    for pair in likers(conn, &few)? {
        all.entry(pair[0]).or_default().push(pair[1]);
        there.insert(pair);
    }
    let one = |like: &Like| {
        let counts = *counts.get(&like.article).ok_or(LikeError::NoArticle)?;
        if !known.contains(&like.user) {
            return Err(LikeError::NoUser);
        }
        let stored = StoredLike { counts, liked: there.contains(&[like.article, like.user]) };
        Ok(Base { stored, likers: all.remove(&like.article) })
    };
    Ok(likes.iter().map(one).collect())
}

/// All pairs of these articles.
fn likers(conn: &Conn<'_>, articles: &[[i64; 1]]) -> Result<Vec<[i64; 2]>> {
    let text = |size| format!("{PAIRS} article_id IN ({})", repeat("?", ", ", size));
    find(conn, articles, text, |row| Ok([row.get(0)?, row.get(1)?]))
}

/// Those pairs of these likes that are stored.
fn liked<'l>(conn: &Conn<'_>, likes: impl Iterator<Item = &'l Like>) -> Result<HashSet<[i64; 2]>> {
    let text = |size| format!("{PAIRS} {}", repeat(ONE_PAIR, " OR ", size));
    let pairs = distinct(likes.map(|like| [like.article, like.user]));
    Ok(find(conn, &pairs, text, |row| Ok([row.get(0)?, row.get(1)?]))?.into_iter().collect())
}

const PAIRS: &str = "SELECT article_id, user_id FROM article_likes WHERE";
const ONE_PAIR: &str = "article_id = ? AND user_id = ?";

/// The counts of those articles of these likes that exist; `FOR UPDATE` locks them until the end.
fn counts(conn: &Conn<'_>, likes: &[Like], lock: &str) -> Result<HashMap<ArticleId, Counts>> {
    let text = |size| {
        let ids = repeat("?", ", ", size);
        format!(
            "SELECT id, like_count, comment_count FROM articles WHERE id IN ({ids}) ORDER BY id{lock}"
        )
    };
    let articles = distinct(likes.iter().map(|like| [like.article]));
    let found = find(conn, &articles, text, |row| {
        Ok((row.get(0)?, Counts { likes: row.get(1)?, comments: row.get(2)? }))
    });
    Ok(found?.into_iter().collect())
}

/// Those users of these likes that exist; `LOCK IN SHARE MODE` keeps them until the end.
fn existing(conn: &Conn<'_>, likes: &[Like], lock: &str) -> Result<HashSet<UserId>> {
    let users = distinct(likes.iter().map(|like| [like.user]));
    let text = |size| {
        let ids = repeat("?", ", ", size);
        format!("SELECT id FROM users WHERE id IN ({ids}) ORDER BY id{lock}")
    };
    Ok(find(conn, &users, text, |row| row.get(0))?.into_iter().collect())
}

fn write(
    tx: &Tx<'_>,
    added: &[[i64; 2]],
    removed: &[[i64; 2]],
    counted: &[[i64; 2]],
) -> Result<()> {
    // Articles and users are locked: IGNORE skips only the repetitions of the last row.
    for some in added.chunks(MOST) {
        let rows = repeat("(?, ?)", ", ", some.len().next_power_of_two());
        let sql = format!("INSERT IGNORE INTO article_likes (article_id, user_id) VALUES {rows}");
        tx.run(&sql, &padded(some))?;
    }
    for some in removed.chunks(MOST) {
        let pairs = repeat(ONE_PAIR, " OR ", some.len().next_power_of_two());
        tx.run(&format!("DELETE FROM article_likes WHERE {pairs}"), &padded(some))?;
    }
    for some in counted.chunks(MOST) {
        let size = some.len().next_power_of_two();
        let (cases, ids) = (repeat("WHEN ? THEN ?", " ", size), repeat("?", ", ", size));
        let sql =
            format!("UPDATE articles SET like_count = CASE id {cases} END WHERE id IN ({ids})");
        let mut values = padded(some);
        let ids: Vec<_> = values.iter().copied().step_by(2).collect();
        values.extend(ids);
        tx.run(&sql, &values)?;
    }
    Ok(())
}

fn find<T, const N: usize>(
    conn: &Conn<'_>,
    keys: &[[i64; N]],
    text: impl Fn(usize) -> String,
    read: impl Fn(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut found = Vec::with_capacity(keys.len());
    for some in keys.chunks(MOST) {
        let sql = text(some.len().next_power_of_two());
        found.extend(conn.rows(&sql, &padded(some), &read)?);
    }
    Ok(found)
}

fn distinct<const N: usize>(keys: impl Iterator<Item = [i64; N]>) -> Vec<[i64; N]> {
    keys.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The values of these rows, the last one repeated up to a power of two.
fn padded<const N: usize>(rows: &[[i64; N]]) -> Vec<Value<'_>> {
    let last = rows.last().into_iter().cycle();
    let all = rows.iter().chain(last).take(rows.len().next_power_of_two());
    all.flatten().map(|value| value.value()).collect()
}

fn repeat(part: &str, between: &str, times: usize) -> String {
    vec![part; times].join(between)
}
