//! `schedules.*`: the limit per user.

use super::keys::settings;
use super::value::{off_or, up_to, word};
use serde::Deserialize;

settings! {
    /// `schedules.*`: the limit per user.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ScheduleSettings {
        limit: Option<u32> = "schedules.limit", "30", off_or(up_to(1_000_000)),
            "Maximum number of schedules of a user; further ones are answered 409; off = no limit";
        limit_check: LimitCheck = "schedules.limit_check", "counter",
            word("load-all, count, insert-select, row-lock or counter"),
            "Method of enforcing that limit (documented system: load-all, count or insert-select; the first two let parallel requests exceed it)";
    }
}

/// Enforcement of the limit on schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitCheck {
    /// Fetch all rows, then insert in a second transaction, as in the documented system. Races.
    LoadAll,
    /// Count the rows, then insert in a second transaction, as in the documented system. Races.
    Count,
    /// Count in the statement that inserts, as in the documented system.
    InsertSelect,
    /// Lock, count, insert in one transaction.
    RowLock,
    /// Conditional update of a count in the transaction of the insert.
    Counter,
}
