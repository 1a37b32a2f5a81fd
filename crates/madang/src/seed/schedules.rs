//! Schedules of the seeded users, within a year of the epoch.

use super::batches::Batches;
use super::random::Random;
use super::{Added, Ground, Rows};
use crate::settings::Usage;
use anyhow::ensure;
use madang_service::accounts::UserId;
use madang_service::schedules::{LocationId, NewSchedule};
use std::collections::HashMap;

const MOST_OF_ONE_USER: i64 = 1_000_000;
/// Most of them in one run: some 10 GB.
const MOST: u64 = 100_000_000;
const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;

const TITLES: [&str; 12] = [
    "아침 달리기", "동네 산책", "장보기", "배드민턴", "독서 모임", "플리마켓 구경", "Morning run",
    "Evening walk", "Tennis", "Market visit", "Book club", "Picnic",
];

/// How many there shall be.
#[derive(clap::Args, Clone, Copy, Debug)]
#[group(skip)]
pub(super) struct Flags {
    /// Number of schedules per user, up to 1000000
    #[arg(long, value_name = "M", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=MOST_OF_ONE_USER))]
    schedules_per_user: u32,
}

impl Flags {
    /// Refuses more than one run can be meant to make.
    pub(super) fn check(self, users: u32) -> Result<(), Usage> {
        let all = u64::from(users) * u64::from(self.schedules_per_user);
        let too_many = || Usage(format!("{all} schedules are too many; at most {MOST} in one run"));
        if all <= MOST { Ok(()) } else { Err(too_many()) }
    }
}

/// Brings each user up to the wanted number. What is there counts, not which: comparing rows would read
/// them all for the sake of stores that somebody has used since.
pub(super) async fn fill(ground: &Ground<'_>) -> anyhow::Result<Added> {
    let mut added = Added::default();
    let each = ground.wanted.schedules.schedules_per_user;
    if each == 0 {
        return Ok(added);
    }
    ground.begin("schedules", ground.users.len() as u64 * u64::from(each));
    let store = ground.app.schedules.store();
    let places: Vec<_> =
        store.locations(0, 1000).await?.into_iter().map(|place| place.id).collect();
    ensure!(!places.is_empty(), "the store has no locations");
    let counts: HashMap<UserId, u64> = store.counts().await?.into_iter().collect();
    let mut batches = Batches::new(ground.bar, |rows| {
        let store = store.clone();
        async move { store.create_all(rows).await }
    });
    for (number, user) in (1..).zip(ground.users) {
        let there = counts.get(user).map_or(0, |n| u32::try_from(*n).unwrap_or(u32::MAX));
        let there = there.min(each);
        added.old += u64::from(there);
        ground.bar.inc(u64::from(there));
        for index in there..each {
            batches.push(schedule(ground.wanted, number, *user, index, &places)).await?;
        }
    }
    added.new = batches.finish().await?;
    Ok(added)
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
