//! A batch of likes in the tables of a server, in five statements however many there are: each is a way there and back.
//!
//! The articles are held first, in the order of their ids, so of two batches with an article in common one waits for the
//! other and then sees what it has done.

use super::batch::Sorted;
use super::store::Applied;
use super::{Like, LikeError, Look};
use crate::accounts::UserId;
use crate::articles::types::{ArticleId, Counts};
use crate::store::{Conn, Parameter as _, Result, Row, Tx, Value};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Rows that one statement names. Statements name 1, 2, 4 and so on up to this, the last row several times: so there are
/// few texts, and they stay prepared.
const MOST: usize = 256;

/// What [`apply`](super::store::apply) does.
pub(super) fn apply(tx: &Tx<'_>, likes: &[Like]) -> Result<Applied> {
    let mut applied =
        Applied { answers: vec![Err(LikeError::NoArticle); likes.len()], ..Applied::default() };
    let sorted = Sorted::new(likes);
    let articles: Vec<_> = sorted.articles().map(|of_article| [of_article.article()]).collect();
    let held = counts(tx, &articles, " FOR UPDATE")?;
    let known = existing(tx, likes, " LOCK IN SHARE MODE")?;
    let mut pairs: Vec<[i64; 2]> = Vec::new();
    for of_article in sorted.articles().filter(|one| held.contains_key(&one.article())) {
        let users = of_article.folded().map(|(user, _)| user).filter(|user| known.contains(user));
        pairs.extend(users.map(|user| [of_article.article(), user]));
    }
    let there: HashSet<[i64; 2]> = liked(tx, &pairs)?.into_iter().collect();

    let (mut added, mut removed, mut counted) = (Vec::new(), Vec::new(), Vec::new());
    for of_article in sorted.articles() {
        let article = of_article.article();
        let Some(counts) = held.get(&article) else { continue };
        let mut before = HashMap::new();
        let (mut more, mut fewer) = (0u64, 0u64);
        for (user, fold) in of_article.folded().filter(|(user, _)| known.contains(user)) {
            let pair = [article, user];
            let was = there.contains(&pair);
            match (was, fold.applied_to(was)) {
                (false, true) => {
                    added.push(pair);
                    more += 1;
                }
                (true, false) => {
                    removed.push(pair);
                    fewer += 1;
                }
                _ => {}
            }
            before.insert(user, was);
        }
        for (at, answer) in of_article.answers(*counts, before) {
            applied.answers[at] = answer.ok_or(LikeError::NoUser);
        }
        let likes = (counts.likes + more).saturating_sub(fewer);
        if likes != counts.likes {
            counted.push([article, i64::try_from(likes).unwrap_or(i64::MAX)]);
        }
        applied.counts.push((article, Counts { likes, ..*counts }));
    }
    write(tx, &added, &removed, &counted)?;
    applied.changed = (added.len() + removed.len()) as u64;
    Ok(applied)
}

/// Of an article with so many likes, or fewer, all who like it are read: then none of its likes needs a look again.
const FEW: u64 = 1000;

/// What the tables say of a pair.
#[derive(Clone, Debug)]
pub(super) struct Looked {
    pub(super) look: Look,
    /// All who like the article; with one of its likes, where they are few.
    pub(super) all: Option<Vec<UserId>>,
}

/// What the tables say of these pairs, in four statements or a few more.
pub(super) fn look(conn: &Conn<'_>, likes: &[Like]) -> Result<Vec<Result<Looked, LikeError>>> {
    let articles: BTreeSet<[ArticleId; 1]> = likes.iter().map(|like| [like.article]).collect();
    let articles: Vec<_> = articles.into_iter().collect();
    let counts = counts(conn, &articles, "")?;
    let known = existing(conn, likes, "")?;
    let (few, many): (Vec<_>, Vec<_>) =
        counts.iter().partition::<Vec<_>, _>(|(_, counts)| counts.likes <= FEW);
    let few: Vec<_> = few.into_iter().map(|(id, _)| [*id]).collect();
    let many: HashSet<ArticleId> = many.into_iter().map(|(id, _)| *id).collect();
    let pairs: BTreeSet<[i64; 2]> = likes
        .iter()
        .filter(|like| many.contains(&like.article))
        .map(|like| [like.article, like.user])
        .collect();
    let pairs: Vec<_> = pairs.into_iter().collect();
    let mut there: HashSet<[i64; 2]> = liked(conn, &pairs)?.into_iter().collect();
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
        let look = Look { counts, liked: there.contains(&[like.article, like.user]) };
        Ok(Looked { look, all: all.remove(&like.article) })
    };
    Ok(likes.iter().map(one).collect())
}

/// All who like these articles.
fn likers(conn: &Conn<'_>, articles: &[[i64; 1]]) -> Result<Vec<[i64; 2]>> {
    let text = |size| format!("{PAIRS} article_id IN ({})", repeat("?", ", ", size));
    find(conn, articles, text, |row| Ok([row.get(0)?, row.get(1)?]))
}

/// Those pairs that are there.
fn liked(conn: &Conn<'_>, pairs: &[[i64; 2]]) -> Result<Vec<[i64; 2]>> {
    let text = |size| format!("{PAIRS} {}", repeat(ONE_PAIR, " OR ", size));
    find(conn, pairs, text, |row| Ok([row.get(0)?, row.get(1)?]))
}

const PAIRS: &str = "SELECT article_id, user_id FROM article_likes WHERE";
const ONE_PAIR: &str = "article_id = ? AND user_id = ?";

/// The counts of those articles that are there; with `FOR UPDATE` nobody else changes them until the end.
fn counts(conn: &Conn<'_>, ids: &[[i64; 1]], hold: &str) -> Result<HashMap<ArticleId, Counts>> {
    let text = |size| {
        let ids = repeat("?", ", ", size);
        format!(
            "SELECT id, like_count, comment_count FROM articles WHERE id IN ({ids}) ORDER BY id{hold}"
        )
    };
    let found = find(conn, ids, text, |row| {
        Ok((row.get(0)?, Counts { likes: row.get(1)?, comments: row.get(2)? }))
    });
    Ok(found?.into_iter().collect())
}

/// Those of the users of these likes that are there; with `LOCK IN SHARE MODE` they stay until the end.
fn existing(conn: &Conn<'_>, likes: &[Like], hold: &str) -> Result<HashSet<UserId>> {
    let users: BTreeSet<[UserId; 1]> = likes.iter().map(|like| [like.user]).collect();
    let users: Vec<_> = users.into_iter().collect();
    let text = |size| {
        let ids = repeat("?", ", ", size);
        format!("SELECT id FROM users WHERE id IN ({ids}) ORDER BY id{hold}")
    };
    Ok(find(conn, &users, text, |row| row.get(0))?.into_iter().collect())
}

fn write(
    tx: &Tx<'_>,
    added: &[[i64; 2]],
    removed: &[[i64; 2]],
    counted: &[[i64; 2]],
) -> Result<()> {
    // Articles and users are held: the only row that is left out is the last one when it comes again.
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

/// The values of these rows, the last one again until there are as many as a power of two.
fn padded<const N: usize>(rows: &[[i64; N]]) -> Vec<Value<'_>> {
    let last = rows.last().into_iter().cycle();
    let all = rows.iter().chain(last).take(rows.len().next_power_of_two());
    all.flatten().map(|value| value.value()).collect()
}

fn repeat(part: &str, between: &str, times: usize) -> String {
    vec![part; times].join(between)
}
