//! Kept connections of one virtual user.

use std::cell::RefCell;
use std::rc::Rc;

use super::Url;
use super::connection::{Connection, Peer};
use super::http2::Http2;

/// Limit over all hosts; the oldest is closed first.
const MAX_KEPT_CONNECTIONS: usize = 64;

pub(super) enum Link {
    /// HTTP/1.1: exclusive until the response is read.
    Alone(Connection),
    /// HTTP/2: used by several requests at a time.
    Shared(Http2),
}

impl Link {
    pub(super) fn peer(&self) -> Peer {
        match self {
            Self::Alone(connection) => connection.peer,
            Self::Shared(connection) => connection.peer(),
        }
    }

    /// True if another request can be sent now; `None` when the connection is closed.
    fn has_room(&mut self) -> Option<bool> {
        match self {
            Self::Alone(connection) => connection.stream.is_idle().then_some(true),
            Self::Shared(connection) => connection.is_open().then(|| connection.has_room()),
        }
    }
}

struct Kept {
    authority: Rc<str>,
    secure: bool,
    link: Link,
}

impl Kept {
    fn is_to(&self, url: &Url) -> bool {
        self.authority == url.authority && self.secure == url.secure
    }
}

#[derive(Default)]
pub(super) struct Pool {
    kept: RefCell<Vec<Kept>>,
}

impl Pool {
    /// An open connection to the host of `url` with room for a request. Removes closed ones it finds.
    pub(super) fn take(&self, url: &Url) -> Option<Link> {
        let kept = &mut *self.kept.borrow_mut();
        let mut end = kept.len();
        while let Some(at) = kept[..end].iter().rposition(|kept| kept.is_to(url)) {
            end = at;
            match (kept[at].link.has_room(), &kept[at].link) {
                (None, _) => drop(kept.swap_remove(at)),
                (Some(false), _) => {}
                (Some(true), Link::Alone(_)) => return Some(kept.swap_remove(at).link),
                (Some(true), Link::Shared(connection)) => {
                    return Some(Link::Shared(connection.clone()));
                }
            }
        }
        None
    }

    /// Keeps a connection to the host of `url`; a shared one enters the pool when it is opened.
    pub(super) fn keep(&self, url: &Url, link: Link) {
        let kept = &mut *self.kept.borrow_mut();
        if kept.len() >= MAX_KEPT_CONNECTIONS {
            kept.remove(0);
        }
        kept.push(Kept { authority: url.authority.clone(), secure: url.secure, link });
    }

    pub(super) fn clear(&self) {
        self.kept.borrow_mut().clear();
    }
}
