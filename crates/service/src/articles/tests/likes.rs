//! Every mode of likes.

use super::*;
use crate::config::LikesWrite::{Behind, Direct, Discard, Queue};
use crate::housekeeping::Housekeeping;
use madang_testing::until_async;

const STORING: [LikesWrite; 3] = [Direct, Behind, Queue];

#[tokio::test]
async fn every_way_answers_as_if_likes_ran_one_after_another() {
    for way in STORING {
        let bench = Bench::with_articles(3).await;
        let log = bench.log(way);
        let mut random = fastrand::Rng::with_seed(7);
        let mut model: HashSet<(ArticleId, UserId)> = HashSet::new();
        for step in 0..300 {
            let (article, user) = (random.i64(1..=3), random.i64(1..=8));
            let change = [Change::On, Change::Off, Change::Toggle][random.usize(..3)];
            let liked = match change {
                Change::On => true,
                Change::Off => false,
                Change::Toggle => !model.contains(&(article, user)),
            };
            if liked {
                model.insert((article, user))
            } else {
                model.remove(&(article, user))
            };
            let count = model.iter().filter(|(a, _)| *a == article).count() as u64;
            let done = bench.like(&log, article, user, change).await;
            assert_eq!(done, Ok(Liked { liked, count }), "{way:?} at {step}");
            if step % 50 == 49 {
                log.flush().await;
            }
        }
        log.flush().await;
        assert_eq!(bench.rows().await, model, "{way:?}");
        bench.counts_are_rows().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_toggles_of_one_pair_leave_its_parity_and_answer_each_state_equally_often() {
    for way in STORING {
        let bench = Arc::new(Bench::with_articles(1).await);
        let log = bench.log(way);
        let toggle = Like { article: 1, user: 2, change: Change::Toggle };
        let answers = answers(bench.start(&log, [toggle; 65])).await;
        let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
        let liked = answers.iter().filter(|answer| answer.liked).count();
        assert_eq!(liked, 33, "{way:?}: each finds what the one before it left");
        assert!(answers.iter().all(|answer| answer.count == u64::from(answer.liked)), "{way:?}");
        log.flush().await;
        assert_eq!(bench.rows().await, HashSet::from([(1, 2)]), "{way:?}");
        bench.counts_are_rows().await;
        let remembered = bench.counts.get(1).map(|counts| counts.likes);
        assert_eq!(remembered, (!bench.store.is_shared()).then_some(1), "{way:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_likes_of_many_pairs_are_all_there_and_counts_pass_every_number_once() {
    for way in STORING {
        let bench = Arc::new(Bench::with_articles(4).await);
        let log = bench.log(way);
        let wanted: Vec<_> = (1..=4).flat_map(|a| (1..=8).map(move |n| (a, n))).collect();
        let like = |(article, n)| Like { article, user: n as UserId, change: Change::On };
        let likes = bench.start(&log, wanted.iter().copied().map(like));
        let answers = answers(likes).await.into_iter().zip(&wanted);
        let mut counts: Vec<_> =
            answers.map(|(answer, (article, _))| (*article, answer.unwrap().count)).collect();
        counts.sort_unstable();
        assert_eq!(counts, wanted, "{way:?}");
        log.flush().await;
        assert_eq!(bench.rows().await.len(), 32, "{way:?}");
        bench.counts_are_rows().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_batch_serves_the_good_and_refuses_the_others_for_themselves() {
    let bench = Arc::new(Bench::with_one_writer(2).await);
    let log = bench.log(Behind);
    // Blocks the writer until all of them wait, so that they are one batch.
    let held = Held::begin(&bench.store).await;
    let asked = [(1, 1), (99, 1), (2, 77), (1, 2), (99, 77), (2, 3)];
    let like = |(article, user)| Like { article, user, change: Change::On };
    let likes = bench.start(&log, asked.map(like));
    until_async("all wait", || log.metrics().pending >= asked.len() as u64).await;
    held.release().await;
    let answers: Vec<_> =
        answers(likes).await.into_iter().map(|answer| answer.map(|liked| liked.liked)).collect();
    let (no_article, no_user) = (Err(LikeError::NoArticle), Err(LikeError::NoUser));
    let wanted = [Ok(true), no_article.clone(), no_user.clone(), Ok(true), no_article, Ok(true)];
    assert_eq!(answers, wanted);
    let metrics = log.metrics();
    assert_eq!((metrics.batches, metrics.changed, metrics.acknowledged), (1, 3, 3));
    log.flush().await;
    assert_eq!(bench.rows().await, HashSet::from([(1, 1), (1, 2), (2, 3)]));
    bench.counts_are_rows().await;
}

#[tokio::test]
async fn an_absent_article_and_an_absent_user_are_refused_by_every_way() {
    for way in STORING {
        let bench = Bench::with_articles(1).await;
        let log = bench.log(way);
        let absent = bench.like(&log, 2, 1, Change::On).await;
        assert_eq!(absent, Err(LikeError::NoArticle), "{way:?}");
        let gone = bench.like(&log, 1, 99, Change::Toggle).await;
        assert_eq!(gone, Err(LikeError::NoUser), "{way:?}");
        assert!(bench.rows().await.is_empty(), "{way:?}");
    }
}

#[tokio::test]
async fn a_batch_that_cannot_be_committed_is_acknowledged_to_nobody() {
    let bench = Bench::with_articles(1).await;
    for way in [Direct, Behind] {
        let log = bench.log(way);
        bench.break_likes().await;
        if !bench.store.is_shared() {
            bench
                .store
                .execute(
                    "CREATE TRIGGER broken_log BEFORE INSERT ON like_log
                     BEGIN SELECT raise(ABORT, 'no'); END",
                )
                .await;
        }
        let failed = bench.like(&log, 1, 1, Change::On).await;
        assert!(matches!(failed, Err(LikeError::Store(_))), "{way:?}: {failed:?}");
        assert_eq!(bench.counts.get(1), None, "{way:?}: nothing followed");
        bench.mend_likes().await;
        if !bench.store.is_shared() {
            bench.store.execute("DROP TRIGGER broken_log").await;
        }
        let done = bench.like(&log, 1, 1, Change::On).await;
        assert_eq!(done, Ok(Liked { liked: true, count: 1 }), "{way:?}");
        bench.store.execute("DELETE FROM article_likes; UPDATE articles SET like_count = 0").await;
        bench.counts.forget(1);
    }
}

#[tokio::test]
async fn what_the_queue_acknowledged_and_could_not_write_stays_and_is_written_later() {
    let bench = Bench::with_articles(2).await;
    let log = bench.log(Queue);
    for user in 1..=3 {
        bench.like(&log, 1, user, Change::On).await.unwrap();
    }
    bench.like(&log, 1, 3, Change::Toggle).await.unwrap();
    assert!(bench.rows().await.is_empty(), "nothing is stored before the flush");
    assert_eq!(log.metrics().pending, 3);
    assert_eq!(log.waiting(1, 1).await, Some(true));
    let stored = Counts::default();
    assert_eq!(log.count_with_waiting(1, stored).await.likes, 2, "what is waiting is counted");
    bench.break_likes().await;
    log.flush().await;
    assert_eq!((log.metrics().failed_flushes, log.metrics().pending), (1, 3));
    bench.mend_likes().await;
    log.flush().await;
    assert_eq!((log.metrics().pending, log.waiting(1, 1).await), (0, None));
    assert_eq!(bench.rows().await, HashSet::from([(1, 1), (1, 2)]));
    assert_eq!(log.core.read_counts(1).await.unwrap().unwrap().likes, 2);
    bench.counts_are_rows().await;
}

#[tokio::test]
async fn the_queue_forgets_likes_of_what_is_gone_by_the_time_they_are_written() {
    let bench = Bench::with_articles(2).await;
    let log = bench.log(Queue);
    for (article, user) in [(1, 1), (1, 2), (2, 3)] {
        bench.like(&log, article, user, Change::On).await.unwrap();
    }
    bench.store.execute("DELETE FROM articles WHERE id = 2; DELETE FROM users WHERE id = 2").await;
    log.flush().await;
    assert_eq!(log.metrics().pending, 0);
    assert_eq!(bench.rows().await, HashSet::from([(1, 1)]));
    assert_eq!(log.core.read_counts(1).await.unwrap().unwrap().likes, 1);
    bench.counts_are_rows().await;
}

#[tokio::test]
async fn discard_answers_and_stores_nothing() {
    let bench = Bench::with_articles(1).await;
    let log = bench.log(Discard);
    let done = bench.like(&log, 1, 1, Change::Toggle).await;
    assert_eq!(done, Ok(Liked { liked: true, count: 0 }));
    assert_eq!(bench.like(&log, 9, 1, Change::On).await, Err(LikeError::NoArticle));
    assert!(bench.rows().await.is_empty());
}

#[tokio::test]
async fn a_direct_like_has_a_commit_of_its_own() {
    let bench = Arc::new(Bench::embedded(1).await);
    let (direct, behind) = (bench.log(Direct), bench.log(Behind));
    let before = bench.store.metrics();
    let held = Held::begin(&bench.store).await;
    let mut started = Vec::new();
    for user in 1..=4 {
        for log in [&direct, &behind] {
            started.extend(bench.start(log, [Like { article: 1, user, change: Change::On }]));
        }
    }
    // Four direct ones, and one job for those behind.
    let all_wait = || bench.store.metrics().waiting_writes >= 5 && behind.metrics().pending >= 4;
    until_async("all wait", all_wait).await;
    held.release().await;
    assert!(answers(started).await.iter().all(Result::is_ok));
    let commits = bench.store.metrics().commits - before.commits;
    assert_eq!(commits, 5, "four alone, and the batch");
}

#[tokio::test]
async fn the_queue_is_written_at_the_end_until_it_can_be_or_says_what_is_lost() {
    for mended in [true, false] {
        let bench = Bench::with_articles(2).await;
        let system = articles_after(&bench, Queue, Replayed::default());
        for user in 1..=3 {
            bench.like(&system.likes, 1, user, Change::On).await.unwrap();
        }
        bench.break_likes().await;
        let patience = Duration::from_millis(if mended { 60_000 } else { 300 });
        let articles = system.clone();
        let lost = tokio::task::spawn_blocking(move || {
            Housekeeping::start(&articles, patience).unwrap().finish()
        });
        // With a short timeout there may be time for only one.
        let wanted = if mended { 2 } else { 1 };
        until_async("flushes failed", || system.like_metrics().failed_flushes >= wanted).await;
        if mended {
            bench.mend_likes().await;
        }
        assert_eq!(lost.await.unwrap(), if mended { 0 } else { 3 });
        assert_eq!(bench.rows().await.len(), if mended { 3 } else { 0 });
    }
}
