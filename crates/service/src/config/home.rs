//! Settings of the home page.

use super::keys::{Key, key, switch};

/// `home.*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HomeSettings {
    /// Whether there is a page at `/`.
    pub page: bool,
}

pub(super) const KEYS: &[Key] = &[key!(
    "home.page" = "on",
    "on or off",
    "Page at / with trails, markets, request rate and latency; off = 404",
    |s, v| s.home.page = switch(v)?
)];
