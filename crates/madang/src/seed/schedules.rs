//! Schedules of the seeded users, within a year of the epoch.

use super::random::Random;
use super::{Added, Rows};
use anyhow::ensure;
use indicatif::ProgressBar;
use madang_service::accounts::UserId;
use madang_service::app::App;
use madang_service::schedules::{LocationId, NewSchedule};
use std::collections::HashMap;

/// Rows of one transaction: some 2 MB of log, and a hundredth of a second of the writer.
const AT_ONCE: usize = 5_000;
const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;

const TITLES: [&str; 12] = [
    "아침 달리기",
    "동네 산책",
    "장보기",
    "배드민턴",
    "독서 모임",
    "플리마켓 구경",
    "Morning run",
    "Evening walk",
    "Tennis",
    "Market visit",
    "Book club",
    "Picnic",
];

/// Brings each user up to the wanted number. What is there counts, not which: comparing rows would read
/// them all for the sake of stores that somebody has used since.
pub(super) async fn fill(
    app: &App,
    users: &[UserId],
    wanted: &Rows,
    bar: &ProgressBar,
) -> anyhow::Result<Added> {
    let mut added = Added::default();
    if wanted.schedules_per_user == 0 {
        return Ok(added);
    }
    bar.set_message("schedules");
    let store = app.schedules.store();
    let places: Vec<_> =
        store.locations(0, 1000).await?.into_iter().map(|place| place.id).collect();
    ensure!(!places.is_empty(), "there are no locations in this store");
    let counts: HashMap<UserId, u64> = store.counts().await?.into_iter().collect();
    let mut writing = None;
    let mut rows = Vec::with_capacity(AT_ONCE);
    for (number, user) in (1..).zip(users) {
        let there = counts.get(user).map_or(0, |n| u32::try_from(*n).unwrap_or(u32::MAX));
        let there = there.min(wanted.schedules_per_user);
        added.old += u64::from(there);
        bar.inc(u64::from(there));
        for index in there..wanted.schedules_per_user {
            rows.push(schedule(wanted, number, *user, index, &places));
            if rows.len() == AT_ONCE {
                write(app, &mut rows, &mut writing, &mut added, bar).await?;
            }
        }
    }
    write(app, &mut rows, &mut writing, &mut added, bar).await?;
    // The last part is under way still.
    write(app, &mut rows, &mut writing, &mut added, bar).await?;
    Ok(added)
}

type Writing = tokio::task::JoinHandle<anyhow::Result<u64>>;

/// Hands rows to the writer's thread and waits for those before them: the next rows are made meanwhile.
async fn write(
    app: &App,
    rows: &mut Vec<NewSchedule>,
    writing: &mut Option<Writing>,
    added: &mut Added,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    if let Some(before) = writing.take() {
        let written = before.await??;
        added.new += written;
        bar.inc(written);
    }
    if !rows.is_empty() {
        let rows = std::mem::replace(rows, Vec::with_capacity(AT_ONCE));
        let store = app.schedules.store().clone();
        *writing = Some(tokio::spawn(async move {
            let count = rows.len() as u64;
            store.create_all(rows).await?;
            Ok(count)
        }));
        // Lets it begin.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// The schedule of this index of the user of this number: between half an hour and four hours long,
/// beginning at some quarter of an hour within 365 days of the epoch.
fn schedule(
    wanted: &Rows,
    number: u32,
    user: UserId,
    index: u32,
    places: &[LocationId],
) -> NewSchedule {
    let mut random = Random::at(wanted.seed, "schedules", number, index);
    let day = i64::from(random.below(365)) * DAY_MS;
    let start_at_ms = wanted.epoch + day + i64::from(random.below(96)) * 15 * MINUTE_MS;
    let lasts = i64::from(1 + random.below(8)) * 30 * MINUTE_MS;
    NewSchedule {
        user,
        location: *random.one_of(places),
        title: (*random.one_of(&TITLES)).to_owned(),
        start_at_ms,
        end_at_ms: start_at_ms + lasts,
        created_at_ms: wanted.epoch,
    }
}
