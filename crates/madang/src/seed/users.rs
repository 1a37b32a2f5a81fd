//! Users: `user-0001` and so on, all with the same password.

use super::random::Random;
use super::{Added, Rows, begin};
use anyhow::Context as _;
use indicatif::ProgressBar;
use madang_guard::hash::{HashError, Password, Scheme};
use madang_service::accounts::{NewUser, RegionId, UserId};
use madang_service::app::App;
use madang_service::config::Settings;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Regions of users, of different kinds.
const REGIONS: [&str; 8] = [
    "서울 종로구", "서울 마포구", "부산 해운대구", "대전 유성구", "경기 수원시", "강원 춘천시",
    "전북 전주시", "제주 서귀포시",
];

/// Users hashed and written together: enough to share commits and to keep all cores busy.
const AT_ONCE: usize = 256;

/// Name of the user of a number, from 1.
pub(super) fn nickname(number: u32) -> String {
    format!("user-{number:04}")
}

/// Adds missing users in order; returns the ids of all.
pub(super) async fn fill(
    app: &App,
    settings: &Settings,
    wanted: &Rows,
    bar: &ProgressBar,
) -> anyhow::Result<(Vec<UserId>, Added)> {
    begin(bar, "users", u64::from(wanted.users));
    let hashes = Hashes::new(settings.accounts.hash, wanted)?;
    let regions = REGIONS
        .iter()
        .map(|name| {
            app.accounts.regions().find(name).with_context(|| format!("unknown region {name}"))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let at_once = AT_ONCE.min(settings.database.queue);
    let (mut ids, mut added) = (Vec::new(), Added::default());
    let mut number = 1;
    while number <= wanted.users {
        let last = wanted.users.min(number + u32::try_from(at_once).unwrap_or(u32::MAX) - 1);
        let (found, new) = part(app, wanted, &hashes, &regions, number..=last).await?;
        bar.inc(found.len() as u64);
        added.new += new;
        added.old += found.len() as u64 - new;
        ids.extend(found);
        number = last + 1;
    }
    Ok((ids, added))
}

/// Ids of these users, and how many of them were added.
async fn part(
    app: &App,
    wanted: &Rows,
    hashes: &Hashes,
    regions: &[RegionId],
    numbers: std::ops::RangeInclusive<u32>,
) -> anyhow::Result<(Vec<UserId>, u64)> {
    let mut ids = Vec::new();
    let mut missing = Vec::new();
    for number in numbers {
        let found = app.accounts.store().credentials(nickname(number)).await?;
        if found.is_none() {
            missing.push(number);
        }
        ids.push(found.map(|user| user.id));
    }
    let hashes = hashes.make(missing.len())?;
    let user = |(number, password_hash): (&u32, String)| NewUser {
        nickname: nickname(*number),
        password_hash,
        region: *Random::at(wanted.seed, "users", *number, 0).one_of(regions),
        created_at_ms: wanted.epoch,
    };
    let users: Vec<_> = missing.iter().zip(hashes).map(user).collect();
    let new = users.len() as u64;
    let mut stored = app.accounts.store().insert_all(users).await?.into_iter();
    for id in ids.iter_mut().filter(|id| id.is_none()) {
        *id = stored.next().flatten();
    }
    let ids: Option<Vec<_>> = ids.into_iter().collect();
    Ok((ids.context("a nickname was taken by another process")?, new))
}

/// Hashes of the common password.
struct Hashes {
    scheme: Scheme,
    password: Password,
    shared: Option<String>,
}

impl Hashes {
    fn new(scheme: Scheme, wanted: &Rows) -> anyhow::Result<Hashes> {
        let password = Password::from(wanted.password.as_str());
        let shared = wanted.shared_hash.then(|| hash(scheme, &password)).transpose()?;
        Ok(Hashes { scheme, password, shared })
    }

    /// `count` hashes: copies of the shared one, or each with its own salt, computed on all cores.
    fn make(&self, count: usize) -> anyhow::Result<Vec<String>> {
        if let Some(shared) = &self.shared {
            return Ok(vec![shared.clone(); count]);
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (begun, made) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(count)));
        let work = || {
            while begun.fetch_add(1, Ordering::Relaxed) < count {
                let hash = hash(self.scheme, &self.password);
                made.lock().push(hash);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..threads.min(count) {
                scope.spawn(work);
            }
        });
        made.into_inner().into_iter().map(|hash| hash.map_err(anyhow::Error::from)).collect()
    }
}

fn hash(scheme: Scheme, password: &Password) -> Result<String, HashError> {
    Ok(scheme.hash(password)?.as_str().to_owned())
}
