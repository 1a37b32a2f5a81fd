//! The store of schedules, and every way of enforcing their limit, on a real store.

use super::*;
use crate::accounts::UserId;
use crate::config::{LimitCheck, Sources};
use crate::http::Refusal;
use crate::idempotency::Once;
use std::sync::atomic::Ordering::Relaxed;

const WAYS: [LimitCheck; 5] = [
    LimitCheck::LoadAll,
    LimitCheck::Count,
    LimitCheck::InsertSelect,
    LimitCheck::RowLock,
    LimitCheck::Counter,
];

/// The ways that check and write in one transaction.
const EXACT: [LimitCheck; 3] = [LimitCheck::InsertSelect, LimitCheck::RowLock, LimitCheck::Counter];

struct Bench {
    store: Store,
    schedules: ScheduleStore,
    _dir: tempfile::TempDir,
}

impl Bench {
    /// A store with two users, 1 and 2.
    async fn new() -> Bench {
        Self::on(&Sources::of_test()).await
    }

    async fn on(sources: &Sources) -> Bench {
        let (store, dir) = Store::fresh(sources);
        store.add_users(1..=2).await;
        Bench { schedules: ScheduleStore::new(store.clone()), store, _dir: dir }
    }

    async fn create(
        &self,
        new: NewSchedule,
        most: Option<u32>,
        check: LimitCheck,
    ) -> Result<ScheduleId, CreateError> {
        let limit = ScheduleLimit { most, check };
        let done = self.schedules.create(new, Once::default(), limit).await?;
        Ok(done.outcome)
    }

    /// Asserts that every user's count is the number of rows.
    async fn counts_are_right(&self) {
        let wrong = "SELECT count(*) FROM users u
             WHERE (SELECT count(*) FROM schedules WHERE user_id = u.id)
                != coalesce((SELECT n FROM schedule_counts WHERE user_id = u.id), 0)";
        assert_eq!(self.store.number(wrong).await, 0, "{:?}", self.schedules.counts().await);
    }

    /// 64 creates at once; returns the numbers of accepted ones and of those refused because of the limit.
    async fn rush(&self, most: u32, check: LimitCheck) -> (usize, usize) {
        let mut creates = tokio::task::JoinSet::new();
        for hour in 0..64 {
            let schedules = self.schedules.clone();
            let limit = ScheduleLimit { most: Some(most), check };
            creates
                .spawn(async move { schedules.create(new(1, hour), Once::default(), limit).await });
        }
        let (mut taken, mut refused) = (0, 0);
        while let Some(done) = creates.join_next().await {
            match done.unwrap() {
                Ok(_) => taken += 1,
                Err(CreateError::LimitReached) => refused += 1,
                Err(other) => panic!("{check:?}: {other}"),
            }
        }
        (taken, refused)
    }
}

/// A schedule of one hour that begins at this hour of 1970.
fn new(user: UserId, hour: i64) -> NewSchedule {
    let start_at_ms = hour * 3_600_000;
    NewSchedule {
        user,
        location: 1,
        title: format!("산책 {hour}"),
        start_at_ms,
        end_at_ms: start_at_ms + 3_600_000,
        created_at_ms: 0,
    }
}

#[tokio::test]
async fn every_way_takes_as_many_as_allowed_one_after_another() {
    for check in WAYS {
        let bench = Bench::new().await;
        for hour in 0..3 {
            bench.create(new(1, hour), Some(3), check).await.unwrap();
        }
        let full = bench.create(new(1, 3), Some(3), check).await;
        assert_eq!(full, Err(CreateError::LimitReached), "{check:?}");
        bench.create(new(2, 0), Some(3), check).await.unwrap();
        assert_eq!(bench.store.number("SELECT count(*) FROM schedules").await, 4, "{check:?}");
        bench.counts_are_right().await;
    }
}

#[tokio::test]
async fn a_check_within_the_write_is_exact_from_nothing_and_one_below_the_limit() {
    for check in EXACT {
        let bench = Bench::new().await;
        // Its count does not see uncommitted rows of others.
        if bench.store.is_shared() && check == LimitCheck::InsertSelect {
            continue;
        }
        assert_eq!(bench.rush(30, check).await, (30, 34), "{check:?} from nothing");
        bench.counts_are_right().await;
        let one_below = "DELETE FROM schedules WHERE id =
                 (SELECT id FROM (SELECT max(id) AS id FROM schedules) AS last);
             UPDATE schedule_counts SET n = 29";
        bench.store.execute(one_below).await;
        assert_eq!(bench.rush(30, check).await, (1, 63), "{check:?} one below");
        bench.counts_are_right().await;
    }
}

#[tokio::test]
async fn a_look_that_is_older_than_the_write_lets_creates_past_the_limit() {
    // As `load-all` and `count` do under load: all check before any of them writes.
    for check in [LimitCheck::LoadAll, LimitCheck::Count] {
        let bench = Bench::new().await;
        let limit = ScheduleLimit { most: Some(1), check };
        for hour in 0..4 {
            limit.before(&bench.schedules, &new(1, hour)).await.unwrap();
        }
        for hour in 0..4 {
            let new = new(1, hour);
            let written = bench.store.write(move |tx| store::insert(tx, &new, limit)).await;
            assert!(written.unwrap().is_some());
        }
        assert_eq!(bench.store.number("SELECT count(*) FROM schedules").await, 4, "{check:?}");
        bench.counts_are_right().await;
    }
}

#[tokio::test]
async fn a_retry_gets_the_first_answer_whenever_the_first_commits() {
    for check in WAYS {
        // The first request commits after so many steps of its retry.
        for steps in 0..4 {
            let bench = Bench::new().await;
            let limit = ScheduleLimit { most: Some(1), check };
            let create = || bench.schedules.create(new(1, 0), Once::with_key(1, "k"), limit);
            let mut retry = std::pin::pin!(create());
            let early = advanced(retry.as_mut(), steps).await;
            let first = create().await.unwrap();
            let retried = match early {
                Some(done) => done,
                None => retry.await,
            };
            let retried = retried.unwrap_or_else(|e| panic!("{check:?} after {steps}: {e}"));
            assert_eq!(retried.outcome, first.outcome, "{check:?} after {steps}");
            assert!(retried.replayed != first.replayed, "{check:?} after {steps}");
        }
    }
}

/// Polls a future this many times, each time after it was woken, or to its end.
async fn advanced<F: Future>(mut work: std::pin::Pin<&mut F>, steps: u32) -> Option<F::Output> {
    use std::task::Poll;
    for _ in 0..steps {
        let step = std::future::poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
        if let Poll::Ready(done) = step {
            return Some(done);
        }
        // Returns when the work has woken this task.
        let mut woken = false;
        std::future::poll_fn(|_| {
            if std::mem::replace(&mut woken, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
    None
}

#[tokio::test]
async fn ways_may_change_from_one_create_to_the_next() {
    let bench = Bench::new().await;
    let mut hour = 0;
    for check in WAYS.into_iter().cycle().take(20) {
        bench.create(new(1, hour), (hour % 6 != 0).then_some(100), check).await.unwrap();
        hour += 1;
    }
    bench.counts_are_right().await;
    for check in WAYS {
        let full = bench.create(new(1, hour), Some(20), check).await;
        assert_eq!(full, Err(CreateError::LimitReached), "{check:?}");
    }
}

#[tokio::test]
async fn a_refused_row_leaves_the_count_as_it_was() {
    for check in WAYS {
        for most in [Some(5), None] {
            let bench = Bench::new().await;
            bench.create(new(1, 0), most, check).await.unwrap();
            let nowhere = NewSchedule { location: 999, ..new(1, 1) };
            let answer = bench.create(nowhere, most, check).await;
            assert_eq!(answer, Err(CreateError::UnknownLocation), "{check:?}");
            let nobody = bench.create(new(77, 1), most, check).await;
            assert_eq!(nobody, Err(CreateError::UnknownUser), "{check:?}");
            bench.counts_are_right().await;
            assert_eq!(bench.store.number("SELECT count(*) FROM schedule_counts").await, 1);
            assert_eq!(bench.store.number("SELECT n FROM schedule_counts").await, 1);
        }
    }
}

#[tokio::test]
async fn of_many_deletions_of_one_schedule_one_counts() {
    let bench = Bench::new().await;
    let create = |hour| bench.create(new(1, hour), Some(30), LimitCheck::Counter);
    let id = create(0).await.unwrap();
    create(1).await.unwrap();
    let foreign = bench.schedules.delete(id, 2).await;
    assert_eq!(foreign.unwrap(), Err(Refusal::Absent));
    assert_eq!(bench.schedules.metrics.deleted.load(Relaxed), 0, "nothing was deleted");
    let mut deletions = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let schedules = bench.schedules.clone();
        deletions.spawn(async move { schedules.delete(id, 1).await.unwrap() });
    }
    let outcomes = deletions.join_all().await;
    assert_eq!(outcomes.iter().filter(|o| **o == Ok(())).count(), 1);
    assert_eq!(outcomes.iter().filter(|o| **o == Err(Refusal::Absent)).count(), 15);
    bench.counts_are_right().await;
    assert_eq!(bench.schedules.counts().await.unwrap(), [(1, 1)]);
    let next = create(2).await.unwrap();
    assert!(next > id + 1, "ids are never used again");
}

#[tokio::test]
async fn filling_counts_and_takes_all_or_nothing() {
    let bench = Bench::new().await;
    let rows = |users: &[UserId]| users.iter().map(|user| new(*user, 0)).collect::<Vec<_>>();
    bench.schedules.create_all(rows(&[1, 1, 2, 1])).await.unwrap();
    assert_eq!(bench.schedules.counts().await.unwrap(), [(1, 3), (2, 1)]);
    assert!(bench.schedules.create_all(rows(&[2, 77])).await.is_err());
    bench.schedules.create_all(Vec::new()).await.unwrap();
    assert_eq!(bench.schedules.counts().await.unwrap(), [(1, 3), (2, 1)]);
    bench.counts_are_right().await;
}

#[tokio::test]
async fn pages_follow_the_begin_and_then_the_id() {
    let bench = Bench::new().await;
    let hours = [5, 1, 5, 3, 5, 0];
    bench.schedules.create_all(hours.map(|hour| new(1, hour)).to_vec()).await.unwrap();
    bench.schedules.create_all(vec![new(2, 2)]).await.unwrap();
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let page = bench.schedules.page(1, after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.values.start_at_ms, last.id));
        seen.extend(page.iter().map(|s| (s.values.start_at_ms / 3_600_000, s.id)));
    }
    assert_eq!(seen, [(0, 6), (1, 2), (3, 4), (5, 1), (5, 3), (5, 5)]);
}

#[tokio::test]
async fn listing_and_counting_use_the_index() {
    let bench = Bench::on(&Sources::new()).await;
    let listing = bench.store.plan(store::PAGE.sqlite()).await;
    assert!(
        listing.contains("SEARCH schedules USING INDEX schedules_by_user (user_id=?"),
        "{listing}"
    );
    assert!(!listing.contains("TEMP B-TREE"), "{listing}");
    let counting = bench.store.plan("SELECT count(*) FROM schedules WHERE user_id = 1").await;
    assert!(counting.contains("USING COVERING INDEX schedules_by_user"), "{counting}");
}

#[tokio::test]
async fn the_places_are_there_from_the_start() {
    let bench = Bench::new().await;
    let places = bench.schedules.locations(0, 100).await.unwrap();
    assert_eq!(places.first().map(|p| (p.id, p.name.as_str())), Some((1, "서울광장")));
    assert!(places.iter().zip(1..).all(|(place, id)| place.id == id));
    // All of them in South Korea.
    assert!(
        places
            .iter()
            .map(|place| place.position)
            .all(|[lat, lon]| { (33.0..38.7).contains(&lat) && (124.5..131.0).contains(&lon) })
    );
    assert_eq!(bench.schedules.locations(places.len() as i64 - 1, 100).await.unwrap().len(), 1);
}
