//! The log: applied again, unreadable, full, and with deleted articles and users.

use super::*;
use madang_testing::until_async;
use std::task::Poll;

#[tokio::test]
async fn a_log_that_is_applied_again_changes_nothing_not_even_after_half_of_a_pass() {
    for half in [false, true] {
        let bench = Bench::embedded(4).await;
        let log = bench.log(LikesWrite::Behind);
        let mut random = fastrand::Rng::with_seed(11);
        let mut model = Model::default();
        for _ in 0..100 {
            let (article, user) = (random.i64(1..=4), random.i64(1..=8));
            let done = bench.like(&log, article, user, Change::Toggle).await;
            assert_eq!(done, model.like((article, user), Change::Toggle));
        }
        bench.store.execute("CREATE TABLE saved AS SELECT * FROM like_log").await;
        if half {
            let mut pass = Pass::begin(log.core.clone(), 9).unwrap();
            assert!(pass.step().await.unwrap());
        }
        for _ in 0..2 {
            assert!(bench.store.number("SELECT count(*) FROM like_log").await > 0);
            drop(restarted(&bench).await);
            assert_eq!(bench.rows().await, model.likes);
            bench.store.execute("INSERT INTO like_log SELECT * FROM saved").await;
        }
    }
}

#[tokio::test]
async fn a_row_of_the_log_that_cannot_be_read_is_named_and_nothing_is_applied() {
    let bench = Bench::embedded(1).await;
    bench.like(&bench.log(LikesWrite::Behind), 1, 1, Change::On).await.unwrap();
    for (row, reason) in [("x'07'", "format"), ("x'0105'", "cut off"), ("x''", "cut off")] {
        bench.store.execute(format!("INSERT INTO like_log VALUES (7, {row})")).await;
        let store = bench.store.clone();
        let failed = tokio::task::spawn_blocking(move || replay(&store)).await.unwrap();
        let Err(StoreError::Corrupt(text)) = failed else { panic!("{failed:?}") };
        assert!(text.contains("row 7 of the log of likes") && text.contains(reason), "{text}");
        assert!(bench.rows().await.is_empty());
        bench.store.execute("DELETE FROM like_log WHERE seq = 7").await;
    }
    drop(restarted(&bench).await);
    assert_eq!(bench.rows().await, HashSet::from([(1, 1)]));
}

#[tokio::test]
async fn what_cannot_be_applied_stays_in_the_log_and_is_applied_later() {
    let bench = Bench::embedded(2).await;
    let log = bench.log(LikesWrite::Behind);
    for user in 1..=3 {
        bench.like(&log, 1, user, Change::On).await.unwrap();
    }
    bench.like(&log, 1, 3, Change::Toggle).await.unwrap();
    bench.break_likes().await;
    log.flush().await;
    let metrics = log.metrics();
    assert_eq!((metrics.failed_flushes, metrics.pending, metrics.applied), (1, 3, 0));
    assert!(metrics.lag > Duration::ZERO);
    assert_eq!((log.waiting(1, 2).await, log.waiting(1, 3).await), (Some(true), Some(false)));
    assert_eq!(bench.like(&log, 1, 4, Change::On).await, Ok(Liked { liked: true, count: 3 }));
    bench.mend_likes().await;
    log.flush().await;
    let metrics = log.metrics();
    assert_eq!((metrics.pending, metrics.applied, metrics.lag), (0, 3, Duration::ZERO));
    assert_eq!(bench.rows().await, HashSet::from([(1, 1), (1, 2), (1, 4)]));
    bench.counts_are_rows().await;
    assert_eq!(bench.store.number("SELECT count(*) FROM like_log").await, 0);
}

/// Another process on the same store, whose file must not grow.
async fn restarted_without_room(bench: &Bench, write: LikesWrite) -> Articles {
    bench.store.execute("PRAGMA max_page_count = 1").await;
    let store = bench.store.clone();
    let replayed = tokio::task::spawn_blocking(move || replay(&store)).await.unwrap().unwrap();
    assert!(replayed.left.is_some(), "there was room");
    articles_after(bench, write, replayed)
}

#[tokio::test]
async fn a_log_without_room_to_be_applied_at_the_start_is_shown_and_applied_later() {
    const USERS: i64 = 600;
    for way in [LikesWrite::Behind, LikesWrite::Direct] {
        let bench = Bench::embedded(3).await;
        bench.store.add_users(9..=USERS).await;
        let mut model = Model::default();
        let direct = bench.log(LikesWrite::Direct);
        for user in 1..=4 {
            let done = bench.like(&direct, 2, user, Change::On).await;
            assert_eq!(done, model.like((2, user), Change::On));
        }
        // An article and a user are gone by now; some pairs are as the tables have them.
        let mut pairs: Vec<_> = (1..=USERS + 1).map(|user| ((1, user), user % 3 > 0)).collect();
        pairs.extend((1..=USERS).map(|user| ((2, user), user > 2)));
        pairs.extend((1..=USERS).map(|user| ((3, user), true)));
        pairs.push(((9, 1), true));
        for ((article, user), liked) in
            pairs.iter().filter(|(pair, _)| pair.0 < 9 && pair.1 <= USERS)
        {
            let change = if *liked { Change::On } else { Change::Off };
            model.like((*article, *user), change).unwrap();
        }
        let (changes, row) = (pairs.len() as u64, record::write(&pairs));
        let logged = bench.store.write(move |tx| {
            tx.run("INSERT INTO like_log (likes) VALUES (?)", crate::store::params![row])?;
            Ok::<_, StoreError>(())
        });
        logged.await.unwrap();
        for start in 0..2 {
            let system = restarted_without_room(&bench, way).await;
            everybody_sees(&system, &model, 3, start).await;
            assert_eq!(system.likes.core.pending.backlog(), (changes, changes), "it is bounded so");
            system.likes.flush().await;
            assert_eq!(system.like_metrics().failed_flushes, 1, "{way:?}");
            everybody_sees(&system, &model, 3, start).await;
            if start == 0 {
                continue;
            }
            // New likes continue from the pending ones.
            let done = bench.like(&system.likes, 1, 3, Change::Toggle).await;
            assert_eq!(done, model.like((1, 3), Change::Toggle));
            everybody_sees(&system, &model, 3, start).await;
            bench.store.execute("PRAGMA max_page_count = 1000000").await;
            system.likes.flush().await;
            assert_eq!(system.like_metrics().pending, 0);
            everybody_sees(&system, &model, 3, start).await;
        }
        assert_eq!(bench.store.number("SELECT count(*) FROM like_log").await, 0);
        assert_eq!(bench.rows().await, model.likes, "{way:?}");
        bench.counts_are_rows().await;
    }
}

#[tokio::test]
async fn likes_of_what_is_gone_by_the_time_they_are_applied_are_dropped() {
    let bench = Bench::embedded(3).await;
    let system = articles(&bench);
    let log = &system.likes;
    for (article, user) in [(1, 1), (1, 2), (2, 2), (2, 3), (3, 2)] {
        bench.like(log, article, user, Change::On).await.unwrap();
    }
    log.flush().await;
    for (article, user, change) in
        [(1, 2, Change::Off), (1, 4, Change::On), (2, 4, Change::On), (3, 3, Change::On)]
    {
        bench.like(log, article, user, change).await.unwrap();
    }
    // Article 3 by its author, article 2 and two users by an operator's hand.
    assert_eq!(system.store().delete(3, 1).await.unwrap(), Ok(()));
    bench
        .store
        .execute("DELETE FROM articles WHERE id = 2; DELETE FROM users WHERE id IN (2, 4)")
        .await;
    for article in [2, 3] {
        assert_eq!(crate::articles::LEFTOVERS.sweep(&bench.store, article, 100).await, Ok(false));
    }
    assert_eq!(bench.like(log, 3, 3, Change::Off).await, Err(LikeError::NoArticle));
    assert_eq!(bench.like(log, 1, 4, Change::Off).await, Err(LikeError::NoUser));
    log.flush().await;
    system.take_back_likes_of_the_gone().await.unwrap();
    assert_eq!(log.metrics().pending, 0);
    assert_eq!(bench.rows().await, HashSet::from([(1, 1)]), "and none came after the sweep");
    assert_eq!(system.counts(1).await.unwrap().map(|counts| counts.likes), Some(1));
    assert_eq!(system.counts(2).await.unwrap(), None);
    assert_eq!(system.counts(3).await.unwrap(), None);
    bench.counts_are_rows().await;
}

#[tokio::test]
async fn likes_are_refused_when_the_log_is_full_and_taken_again_after_a_pass() {
    let bench = Bench::embedded(1).await;
    let log = bench.log(LikesWrite::Behind);
    let behind = Arc::new(Behind::bounded(log.core.clone(), 4));
    let like = |user, change| {
        let (gate, behind) = (bench.gate.clone(), behind.clone());
        async move { behind.apply(Like { article: 1, user, change }, gate.enter().await.unwrap()).await }
    };
    // The limit counts changes, not pairs: it bounds the records.
    for count in [1, 0, 1, 0] {
        assert_eq!(like(1, Change::Toggle).await.map(|liked| liked.count), Ok(count));
    }
    assert_eq!(like(2, Change::On).await, Err(LikeError::Full));
    behind.flush().await;
    assert_eq!(like(2, Change::On).await, Ok(Liked { liked: true, count: 1 }));
    behind.flush().await;
    assert_eq!(bench.rows().await, HashSet::from([(1, 2)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_are_small_while_the_log_is_long() {
    let bench = Arc::new(Bench::embedded(50).await);
    let log = bench.log(LikesWrite::Behind);
    let behind = Arc::new(Behind::bounded(log.core.clone(), 600));
    let mut batches = Vec::new();
    for change in [Change::On, Change::Off, Change::On] {
        let before = log.metrics().batches;
        let held = Held::begin(&bench.store).await;
        let mut likes = tokio::task::JoinSet::new();
        for n in 0..200 {
            let (gate, behind) = (bench.gate.clone(), behind.clone());
            let like = Like { article: 1 + n / 4, user: 1 + n % 4, change };
            likes.spawn(async move { behind.apply(like, gate.enter().await.unwrap()).await });
        }
        // Those of the first round are in the log while the second one comes.
        let logged = if change == Change::Off { 200 } else { 0 };
        until_async("200 likes wait", || behind.pending().0 >= logged + 200).await;
        held.release().await;
        assert!(likes.join_all().await.iter().all(Result::is_ok));
        batches.push(log.metrics().batches - before);
        if change == Change::Off {
            behind.flush().await;
        }
    }
    // The log held nothing, 200 changes, and nothing.
    assert_eq!(batches, [1, 2, 1]);
}

/// Polls a future once, so that it submits its job.
async fn begun<F: Future>(future: F) -> std::pin::Pin<Box<F>> {
    let mut future = Box::pin(future);
    let waits = std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await;
    assert!(waits);
    future
}

#[tokio::test]
async fn a_pair_that_is_reversed_in_the_group_of_its_slice_stays_reversed() {
    for case in 0..8 {
        let (on, batch_first, crashes) = (case & 1 > 0, case & 2 > 0, case & 4 > 0);
        let bench = Bench::embedded(1).await;
        let (system, mut model) = (articles(&bench), Model::default());
        let (log, pair) = (&system.likes, (1, 2));
        let mut changes = vec![((1, 1), Change::On)];
        changes.extend((!on).then_some((pair, Change::On)));
        for (pair, change) in changes {
            let done = bench.like(log, pair.0, pair.1, change).await;
            assert_eq!(done, model.like(pair, change));
        }
        log.flush().await;
        // Pending, and then the other in one group with the slice that applies it.
        let (change, reverse) =
            if on { (Change::On, Change::Off) } else { (Change::Off, Change::On) };
        let done = bench.like(log, pair.0, pair.1, change).await;
        assert_eq!(done, model.like(pair, change));
        let mut pass = Pass::begin(log.core.clone(), 256).unwrap();
        let held = Held::begin(&bench.store).await;
        let (reversed, more) = if batch_first {
            let batch = begun(bench.like(log, pair.0, pair.1, reverse)).await;
            let slice = begun(pass.step()).await;
            held.release().await;
            (batch.await, slice.await)
        } else {
            let slice = begun(pass.step()).await;
            let batch = begun(bench.like(log, pair.0, pair.1, reverse)).await;
            held.release().await;
            (batch.await, slice.await)
        };
        assert_eq!(more, Ok(false));
        assert_eq!(reversed, model.like(pair, reverse), "{case}");
        everybody_sees(&system, &model, 1, case).await;
        if crashes {
            everybody_sees(&restarted(&bench).await, &model, 1, case).await;
        } else {
            log.flush().await;
            assert_eq!(log.metrics().pending, 0, "{case}");
            everybody_sees(&system, &model, 1, case).await;
        }
        assert_eq!(bench.rows().await, model.likes, "{case}");
        bench.counts_are_rows().await;
    }
}
