//! State of the request that the current task works for: its client, its writes, its rate limit.
//!
//! Queues serve client addresses in turn, so every wait needs the address; and the edge must know whether a request
//! may have written. So the edge attaches both to the request's task, instead of passing them through every handler
//! and store. A task that continues a request takes them along ([`carried`]); background work started by a request (a
//! sweep, a counted view) does not.
//!
//! No function here is an `async fn`: it would hold the future twice, once as its argument, and every write would
//! copy some kilobytes more.

use crate::accounts::UserId;
use crate::http::limits::LimitHeaders;
use crate::ops::metrics::RouteMetrics;
use crate::ops::record::{Part, Spent, Timer};
use crate::store::Handover;
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::task::futures::TaskLocalFuture;

tokio::task_local! {
    static CURRENT: Current;
}

/// State of a request; the default in tasks of the server itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Current {
    /// Client address, normalised by `madang_guard::net::counted`.
    pub(crate) client: Option<IpAddr>,
    /// Writes of the request; `None` for a safe method.
    pub(crate) handover: Option<Handover>,
    /// True if rate limits apply to the client.
    pub(crate) limited: bool,
    /// User of the valid token, once it was verified.
    pub(crate) user: Cell<Option<UserId>>,
    /// The route that it matches.
    pub(crate) route: Cell<Option<&'static RouteMetrics>>,
    /// Rate-limit headers of the response.
    pub(crate) limit: RefCell<Option<LimitHeaders>>,
    /// Time by part of the request; `None` unless recorded.
    pub(crate) spent: Option<Arc<Spent>>,
}

impl Current {
    pub(crate) fn run<F: Future>(self, work: F) -> TaskLocalFuture<Current, F> {
        CURRENT.scope(self, work)
    }
}

/// Attaches the state of the current request to a future that runs in another task.
pub(crate) fn carried<F: Future>(work: F) -> impl Future<Output = F::Output> {
    CURRENT.try_with(Clone::clone).unwrap_or_default().run(work)
}

pub(crate) fn client() -> Option<IpAddr> {
    CURRENT.try_with(|current| current.client).ok().flatten()
}

/// Client address and user, if rate limits apply to the current request.
pub(crate) fn limited() -> Option<(IpAddr, Option<UserId>)> {
    let limited = |current: &Current| Some((current.client?, current.user.get()));
    CURRENT.try_with(|current| limited(current).filter(|_| current.limited)).ok().flatten()
}

/// Sets the user of the current request.
pub(crate) fn note_user(user: UserId) {
    let _ = CURRENT.try_with(|current| current.user.set(Some(user)));
}

pub(crate) fn note_route(route: &'static RouteMetrics) {
    let _ = CURRENT.try_with(|current| current.route.set(Some(route)));
}

/// Sets the rate-limit headers of the current response.
pub(crate) fn note_limit(limit: LimitHeaders) {
    let _ = CURRENT.try_with(|current| current.limit.replace(Some(limit)));
}

pub(crate) fn handover() -> Option<Handover> {
    CURRENT.try_with(|current| current.handover.clone()).ok().flatten()
}

/// Times a part of the current request, if it is recorded, until the timer is dropped.
pub(crate) fn time(part: Part) -> Option<Timer> {
    spent(|spent| spent.time(part))
}

/// Records whether the cache held the body of the current response.
pub(crate) fn cached(hit: bool) {
    spent(|spent| spent.cached(hit));
}

fn spent<T>(note: impl FnOnce(&Arc<Spent>) -> T) -> Option<T> {
    CURRENT.try_with(|current| current.spent.as_ref().map(note)).ok().flatten()
}
