//! Settings of rate limits and quotas.

use super::accounts::Rate;
use super::keys::{Key, key};
use super::value::{size, whole};
use crate::accounts::Quota;

/// `limits.*`: how often each user and each address may do something that costs, and how much a user may store;
/// `None` = no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitSettings {
    /// Reads that are not answered from the cache.
    pub read: ClassLimits,
    /// Writes.
    pub write: ClassLimits,
    /// Uploads of tracks; each is a write, too.
    pub upload: ClassLimits,
    /// What one user may store.
    pub quota: Quota,
}

/// Limits on one class of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassLimits {
    /// Of each user.
    pub user: Option<Rate>,
    /// Of each address (IPv6: of each /64), with a token or without.
    pub address: Option<Rate>,
}

const ACCEPTS: &str = "off or COUNT/DURATION: 120/1min; 1 to 1000000";

pub(super) const KEYS: &[Key] = &[
    key!(
        "limits.read" = "off",
        ACCEPTS,
        "Maximum rate of a user's reads that are not answered from the cache; then 429. COUNT may come at once. Addresses in guard.exempt have no limits; nodes share the counts through guard.url",
        |s, v| s.limits.read.user = limit(v)?
    ),
    key!(
        "limits.read_address" = "off",
        ACCEPTS,
        "The same for all reads from one address (IPv6: one /64), logged in or not; many people may share one",
        |s, v| s.limits.read.address = limit(v)?
    ),
    key!("limits.write" = "off", ACCEPTS, "Maximum rate of a user's writes; then 429", |s, v| s
        .limits
        .write
        .user =
        limit(v)?),
    key!(
        "limits.write_address" = "off",
        ACCEPTS,
        "The same for all writes from one address",
        |s, v| s.limits.write.address = limit(v)?
    ),
    key!(
        "limits.upload" = "off",
        ACCEPTS,
        "Maximum rate of a user's uploads of tracks, each of which is a write, too; then 429",
        |s, v| s.limits.upload.user = limit(v)?
    ),
    key!(
        "limits.upload_address" = "off",
        ACCEPTS,
        "The same for all uploads from one address",
        |s, v| s.limits.upload.address = limit(v)?
    ),
    key!(
        "limits.rows" = "off",
        "off or 1 to 1000000",
        "Maximum number of posts that one user may have, and of articles, comments, tracks and records of runs, each kind counted for itself; then 409. schedules.limit is the one of schedules",
        |s, v| s.limits.quota.rows = quota(v, |v| Ok(whole(v, 1, 1_000_000)? as u64))?
    ),
    key!(
        "limits.track_bytes" = "off",
        "off or a size: 512KiB, 50MiB",
        "Maximum size of all tracks of one user, as they are stored (packed, without the uploaded file); then 409",
        |s, v| s.limits.quota.track_bytes = quota(v, |v| Ok(size(v)? as u64))?
    ),
];

fn quota(value: &str, read: impl Fn(&str) -> Result<u64, String>) -> Result<Option<u64>, String> {
    if value == "off" { Ok(None) } else { read(value).map(Some) }
}

fn limit(value: &str) -> Result<Option<Rate>, String> {
    if value == "off" { Ok(None) } else { Rate::parse(value, 1_000_000).map(Some) }
}
