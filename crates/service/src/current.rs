//! The request that the current task works for: whose it is, what it has handed to the writer, and what its
//! answer says of a limit.
//!
//! A queue that is shared by all clients serves their addresses in turn, so every wait needs the address; and
//! the edge must know what a request has written, or may have. Passing both through each handler and store
//! would add parameters to all of them for the sake of two places, and a handler that forgot to pass them on
//! would lie. So the edge attaches them to the request's task. Work that goes on in a task of its own takes them
//! along ([`carried`]); what is started beside a request (a sweep, a view that is counted) does not,
//! because it is not what the request asked for.
//!
//! Nothing here is an `async fn`: each would hold what it runs twice, once as its argument, and every write
//! would copy some kilobytes more.

use crate::accounts::UserId;
use crate::http::limits::LimitHeaders;
use crate::ops::record::{Part, Spent, Timer};
use crate::store::Handover;
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::task::futures::TaskLocalFuture;

tokio::task_local! {
    static CURRENT: Current;
}

/// What tasks know of the request that they work for; nothing in tasks of the server itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Current {
    /// The address of its client, as `madang_guard::net::counted` gives it.
    pub(crate) client: Option<IpAddr>,
    /// Its writes, if it may write.
    pub(crate) handover: Option<Handover>,
    /// Whether rate limits apply to the client.
    pub(crate) limited: bool,
    /// The user whose valid token it carries, once that was looked at.
    pub(crate) user: Cell<Option<UserId>>,
    /// What its answer says of a rate limit.
    pub(crate) limit: RefCell<Option<LimitHeaders>>,
    /// Where its time goes, if that is recorded.
    pub(crate) spent: Option<Arc<Spent>>,
}

impl Current {
    pub(crate) fn run<F: Future>(self, work: F) -> TaskLocalFuture<Current, F> {
        CURRENT.scope(self, work)
    }
}

/// Work for the current request, to be run in a task of its own.
pub(crate) fn carried<F: Future>(work: F) -> impl Future<Output = F::Output> {
    CURRENT.try_with(Clone::clone).unwrap_or_default().run(work)
}

pub(crate) fn client() -> Option<IpAddr> {
    CURRENT.try_with(|current| current.client).ok().flatten()
}

/// The client's address and the user, if rate limits apply to the current request.
pub(crate) fn limited() -> Option<(IpAddr, Option<UserId>)> {
    let limited = |current: &Current| Some((current.client?, current.user.get()));
    CURRENT.try_with(|current| limited(current).filter(|_| current.limited)).ok().flatten()
}

/// Notes whose valid token the current request carries.
pub(crate) fn note_user(user: UserId) {
    let _ = CURRENT.try_with(|current| current.user.set(Some(user)));
}

/// Notes what the answer to the current request says of a rate limit.
pub(crate) fn note_limit(limit: LimitHeaders) {
    let _ = CURRENT.try_with(|current| current.limit.replace(Some(limit)));
}

/// The writes of the current request.
pub(crate) fn handover() -> Option<Handover> {
    CURRENT.try_with(|current| current.handover.clone()).ok().flatten()
}

/// Times a part of the current request, if that is recorded, until the answer is dropped.
pub(crate) fn time(part: Part) -> Option<Timer> {
    spent(|spent| spent.time(part))
}

/// Notes whether the cache had the body that the current request asks for.
pub(crate) fn cached(hit: bool) {
    spent(|spent| spent.cached(hit));
}

fn spent<T>(note: impl FnOnce(&Arc<Spent>) -> T) -> Option<T> {
    CURRENT.try_with(|current| current.spent.as_ref().map(note)).ok().flatten()
}
