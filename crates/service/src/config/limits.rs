//! Settings of rate limits and quotas.

use super::Rate;
use super::accounts::count_per;
use super::keys::settings;
use super::value::{Kind, bytes, off_or, up_to};

settings! {
    /// `limits.*`: rate limits of users and addresses, and quotas of users; `None` = no limit.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LimitSettings {
        read: Option<Rate> = "limits.read", "off", limit(),
            "Maximum rate of a user's reads that are not answered from the cache; then 429. COUNT may come at once. Addresses in guard.exempt have no limits; nodes share the counts through guard.url";
        read_address: Option<Rate> = "limits.read_address", "off", limit(),
            "The same for all reads from one address (IPv6: one /64), logged in or not; many people may share one";
        write: Option<Rate> = "limits.write", "off", limit(),
            "Maximum rate of a user's writes; then 429";
        write_address: Option<Rate> = "limits.write_address", "off", limit(),
            "The same for all writes from one address";
        upload: Option<Rate> = "limits.upload", "off", limit(),
            "Maximum rate of a user's uploads of tracks, each of which is a write, too; then 429";
        upload_address: Option<Rate> = "limits.upload_address", "off", limit(),
            "The same for all uploads from one address";
        /// Storage limits of one user.
        quota: Quota;
    }
}

settings! {
    /// Storage limits of one user; `None` = no limit.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Quota {
        rows: Option<u64> = "limits.rows", "off", off_or(up_to(1_000_000)),
            "Maximum number of posts that one user may have, and of articles, comments, tracks and records of runs, each kind counted for itself; then 409. schedules.limit is the one of schedules";
        track_bytes: Option<u64> = "limits.track_bytes", "off", off_or(bytes()),
            "Maximum size of all tracks of one user, as they are stored (packed, without the uploaded file); then 409";
    }
}

fn limit() -> Kind<Option<Rate>> {
    off_or(count_per(1_000_000))
}
