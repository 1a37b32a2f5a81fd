//! Schedules of the seeded users, within a year of the epoch.

use super::batches::Batches;
use super::random::Random;
use super::{Added, Context, Rows, begin};
use anyhow::ensure;
use madang_service::accounts::UserId;
use madang_service::schedules::{LocationId, NewSchedule};
use std::collections::HashMap;

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;

const TITLES: [&str; 12] = [
    "아침 달리기", "동네 산책", "장보기", "배드민턴", "독서 모임", "플리마켓 구경", "Morning run",
    "Evening walk", "Tennis", "Market visit", "Book club", "Picnic",
];

/// Adds each user's missing schedules. Existing ones are only counted: a comparison would read all rows.
pub(super) async fn fill(context: &Context<'_>) -> anyhow::Result<Added> {
    let mut added = Added::default();
    let each = context.wanted.schedules_per_user;
    if each == 0 {
        return Ok(added);
    }
    begin(context.bar, "schedules", context.users.len() as u64 * u64::from(each));
    let store = context.app.schedules.store();
    let places: Vec<_> =
        store.locations(0, 1000).await?.into_iter().map(|place| place.id).collect();
    ensure!(!places.is_empty(), "the store has no locations");
    let counts: HashMap<UserId, u64> = store.counts().await?.into_iter().collect();
    let mut batches = Batches::new(context.bar, |rows| {
        let store = store.clone();
        async move { store.create_all(rows).await }
    });
    for (number, user) in (1..).zip(context.users) {
        let existing = counts.get(user).map_or(0, |n| u32::try_from(*n).unwrap_or(u32::MAX));
        let existing = existing.min(each);
        added.old += u64::from(existing);
        context.bar.inc(u64::from(existing));
        for index in existing..each {
            batches.push(schedule(context.wanted, number, *user, index, &places)).await?;
        }
    }
    added.new = batches.finish().await?;
    Ok(added)
}

/// The schedule of an index of user `number`: 0.5 to 4 hours long, starting at a quarter of an hour within 365 days
/// of the epoch.
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
