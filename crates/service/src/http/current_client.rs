//! The client whose request the current task handles.
//!
//! A queue that is shared by all clients serves their addresses in turn, so every wait needs the address.
//! Passing it through each handler and store would add a parameter to all of them for the sake of one
//! place, so the edge attaches it to the request's task. Work that a request starts in another task (a
//! load of the cache) takes it along explicitly: see `Gate::for_current_client`.

use std::net::IpAddr;

tokio::task_local! {
    static CURRENT: IpAddr;
}

/// Handles a request on behalf of `client`, the address as `madang_guard::net::counted` gives it.
pub(super) async fn on_behalf_of<F: Future>(client: IpAddr, request: F) -> F::Output {
    CURRENT.scope(client, request).await
}

/// The client of the request that this task handles; `None` in tasks of the server itself.
pub(super) fn current() -> Option<IpAddr> {
    CURRENT.try_with(|client| *client).ok()
}
