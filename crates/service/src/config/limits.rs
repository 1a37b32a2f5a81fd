//! Settings of rate limits.

use super::accounts::Rate;
use super::keys::{Key, key};

/// `limits.*`: how often each user and each address may do something that costs; `None` = no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitSettings {
    /// Reads that are not answered from the cache.
    pub read: ClassLimits,
    /// Writes.
    pub write: ClassLimits,
    /// Uploads of tracks; each is a write, too.
    pub upload: ClassLimits,
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
];

fn limit(value: &str) -> Result<Option<Rate>, String> {
    if value == "off" { Ok(None) } else { Rate::parse(value, 1_000_000).map(Some) }
}
