//! Articles and comments in the store, their counts, and repairs.
#![allow(clippy::disallowed_types, reason = "changes rows as an operator does")]

use super::super::store::listing::{Walk, page, walk_sql};
use super::super::types::{Order, Summary};
use super::*;
use crate::http::Refusal;
use crate::search::Position;
use crate::store::ChangeError;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

#[tokio::test]
async fn an_article_whose_author_is_gone_stays_without_a_name_and_its_counts_stay_right() {
    let bench = Bench::with_articles(2).await;
    let log = bench.log(LikesWrite::Behind);
    for (article, user) in [(1, 1), (1, 2), (2, 2), (2, 3)] {
        bench.like(&log, article, user, Change::On).await.unwrap();
    }
    log.flush().await;
    bench.comments.add(comment(1, 2), Once::default()).await.unwrap();
    bench.store.execute("DELETE FROM users WHERE id = 2").await;
    if bench.store.is_shared() {
        bench.store.execute("DELETE FROM users WHERE id = 1").await;
    } else {
        // Even if the operator's connection does not enforce foreign keys.
        let conn = rusqlite::Connection::open(bench.dir.path().join(crate::store::FILE)).unwrap();
        conn.execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM users WHERE id = 1").unwrap();
    }
    let article = bench.articles.find(1).await.unwrap().unwrap();
    assert_eq!((article.author, article.title.as_str()), (None, "article 1"));
    let comments = bench.comments.page(1, 0, 10).await.unwrap().unwrap();
    assert_eq!((comments.len(), &comments[0].author), (1, &None));
    articles(&bench).take_back_likes_of_the_gone().await.unwrap();
    assert_eq!(bench.rows().await, HashSet::from([(2, 3)]));
    bench.counts_are_rows().await;
    let page = bench.page(Order::Likes, None, 10).await.unwrap();
    assert_eq!(page.iter().map(|a| (a.id, a.counts.likes)).collect::<Vec<_>>(), [(2, 1), (1, 0)]);
    let orphan = bench.articles.edit(1, 1, Edit::default(), 0, |_| ()).await;
    assert!(matches!(orphan, Err(ChangeError::UnknownUser)), "{orphan:?}");
}

#[tokio::test]
async fn a_deleted_article_is_gone_at_once_and_its_rows_go_in_small_transactions() {
    let bench = Bench::with_articles(2).await;
    let pairs: Vec<_> = (1..=8).flat_map(|user| [(1, user), (2, user)]).collect();
    assert_eq!(bench.log(LikesWrite::Behind).core.store.like_all(pairs).await, Ok(16));
    bench.comments.add_all((0..5).map(|_| comment(1, 3)).collect()).await.unwrap();
    assert_eq!(bench.articles.delete(1, 2).await, Ok(Err(Refusal::NotOwner)));
    assert_eq!(bench.articles.delete(1, 1).await, Ok(Ok(())));
    assert_eq!(bench.articles.delete(1, 1).await, Ok(Err(Refusal::Absent)));
    assert_eq!(bench.articles.find(1).await, Ok(None));
    assert_eq!(bench.comments.page(1, 0, 10).await, Ok(None));
    assert_eq!(bench.page(Order::Newest, None, 10).await.unwrap().len(), 1);
    let left = "SELECT (SELECT count(*) FROM article_likes WHERE article_id = 1)
                     + (SELECT count(*) FROM article_comments WHERE article_id = 1)";
    let mut seen = vec![bench.store.number(left).await];
    while LEFTOVERS.sweep(&bench.store, 1, 4).await.unwrap() {
        seen.push(bench.store.number(left).await);
    }
    seen.push(bench.store.number(left).await);
    assert_eq!(seen, [13, 9, 5, 1, 0]);
    assert_eq!(bench.store.number("SELECT count(*) FROM deleted_articles").await, 0);
    assert_eq!(bench.store.number("SELECT count(*) FROM article_contents").await, 1);
    bench.counts_are_rows().await;
}

#[tokio::test]
async fn wrong_counts_are_found_set_right_and_counted() {
    let bench = Bench::with_articles(250).await;
    let log = bench.log(LikesWrite::Behind);
    bench.like(&log, 3, 1, Change::On).await.unwrap();
    log.flush().await;
    // Only now: the store reports counts to the last system that was created.
    let articles = articles(&bench);
    // Changes by an operator: rows without their count, a count without its rows.
    bench
        .store
        .execute(
            "INSERT INTO article_likes VALUES (3, 2), (200, 1); UPDATE articles SET comment_count = 5 WHERE id = 7",
        )
        .await;
    assert_eq!(articles.counts.get(3), None);
    articles.likes.core.read_counts(3).await.unwrap();
    let mut after = 0;
    while let Some(last) = articles.check_some(after).await.unwrap() {
        after = last;
    }
    bench.counts_are_rows().await;
    let repaired = || articles.upkeep.repaired.load(Relaxed);
    assert_eq!((articles.upkeep.checked.load(Relaxed), repaired()), (250, 3));
    assert_eq!(
        articles.likes.core.read_counts(3).await,
        Ok(Some(Counts { likes: 2, comments: 0 }))
    );
    assert_eq!(articles.check_some(0).await, Ok(Some(100)));
    assert_eq!(repaired(), 3, "what is right is left alone");
}

#[tokio::test]
async fn counts_in_memory_follow_a_change_from_outside() {
    let bench = Bench::embedded(1).await;
    let articles = articles(&bench);
    articles.likes.core.read_counts(1).await.unwrap();
    bench
        .store
        .execute("INSERT INTO article_likes VALUES (1, 1); UPDATE articles SET like_count = 1")
        .await;
    assert_eq!(articles.counts.get(1), Some(Counts::default()));
    articles.check_some(0).await.unwrap();
    assert_eq!(articles.counts.get(1), Some(Counts { likes: 1, comments: 0 }));
    assert_eq!(articles.upkeep.repaired.load(Relaxed), 0, "the file was right");
}

#[tokio::test]
async fn counts_are_read_though_those_of_other_articles_change_all_the_time() {
    let bench = Bench::embedded(1).await;
    let log = bench.log(LikesWrite::Behind);
    bench.like(&log, 1, 1, Change::On).await.unwrap();
    bench.counts.forget(1);
    let version = bench.counts.version(1);
    let moves_it_on = |other: &ArticleId| {
        bench.counts.set(*other, Counts::default());
        bench.counts.version(1) != version
    };
    // An article that shares a version with article 1, as some eight of 32,768 do.
    let other = (2..).find(moves_it_on).unwrap();
    let mut read = std::pin::pin!(log.core.read_counts(1));
    let mut found = None;
    for _ in 0..1000 {
        // With all readers blocked, the previous read is answered and the next one waits: each read comes after a
        // version was noted and before it changes.
        let held = every_reader(&bench.store).await;
        let look = std::future::poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await;
        bench.counts.set(other, Counts::default());
        drop(held);
        if let Poll::Ready(ready) = look {
            found = Some(ready.unwrap());
            break;
        }
    }
    assert_eq!(found, Some(Some(Counts { likes: 1, comments: 0 })));
}

/// Blocks every reader of the store until the result is dropped.
async fn every_reader(store: &Store) -> Vec<crossbeam_channel::Sender<()>> {
    let readers = std::thread::available_parallelism().map_or(2, |n| n.get().max(2));
    let (mut held, mut started) = (Vec::new(), Vec::new());
    for _ in 0..readers {
        let (release, until) = crossbeam_channel::bounded::<()>(0);
        let (start, mut holds) = tokio::sync::mpsc::unbounded_channel();
        let store = store.clone();
        tokio::spawn(async move {
            let hold = move |_: &crate::store::Conn<'_>| {
                let _ = start.send(());
                let _ = until.recv();
                Ok(())
            };
            store.read(hold).await
        });
        held.push(release);
        started.push(async move { holds.recv().await });
    }
    for holds in started {
        holds.await.unwrap();
    }
    held
}

#[tokio::test]
async fn a_count_that_is_wrong_fails_no_like() {
    let bench = Bench::with_articles(1).await;
    let log = bench.log(LikesWrite::Behind);
    bench.like(&log, 1, 1, Change::On).await.unwrap();
    log.flush().await;
    bench.store.execute("UPDATE articles SET like_count = 0").await;
    let off = bench.like(&log, 1, 1, Change::Off).await;
    assert_eq!(off, Ok(Liked { liked: false, count: 0 }));
    log.flush().await;
    assert!(bench.rows().await.is_empty(), "nor its application");
}

#[tokio::test]
async fn every_walk_reads_its_index_and_sort_nothing() {
    let bench = Bench::embedded(1).await;
    for (walk, wanted) in [
        (Walk::Newest, "USING INTEGER PRIMARY KEY (rowid<?)"),
        (Walk::WithLikes, "USING INDEX articles_by_likes (like_count=? AND rowid<?)"),
        (Walk::WithFewer, "USING INDEX articles_by_likes (like_count<?)"),
    ] {
        let plan = bench.store.plan(&walk_sql(walk)).await;
        assert!(plan.contains(wanted), "{walk:?}: {plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{walk:?}: {plan}");
    }
    let plan = bench.store.plan(comments::store::page_sql()).await;
    assert!(
        plan.contains("USING INDEX article_comments_by_article (article_id=? AND rowid>?)"),
        "{plan}"
    );
    assert!(!plan.contains("TEMP B-TREE"), "{plan}");
}

#[tokio::test]
async fn pages_by_likes_hold_every_article_once() {
    let bench = Bench::with_articles(40).await;
    let pairs = (1..=40).flat_map(|article| (1..=article % 5).map(move |user| (article, user)));
    bench.log(LikesWrite::Behind).core.store.like_all(pairs.collect()).await.unwrap();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = bench.page(Order::Likes, after, 7).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.position());
        seen.extend(page.iter().map(|a| (a.counts.likes, a.id)));
    }
    let mut sorted = seen.clone();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(seen, sorted);
    assert_eq!(seen.len(), 40);
}

impl Bench {
    async fn page(
        &self,
        order: Order,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<Summary>> {
        self.store.read(move |conn| page(conn, order, after, limit)).await
    }
}
