//! The kept connections of one virtual user.

use std::cell::RefCell;
use std::rc::Rc;

use super::Url;
use super::connection::{Connection, Peer};
use super::http2::Http2;

/// Kept connections of one virtual user, over all hosts. The oldest goes first.
const MAX_KEPT_CONNECTIONS: usize = 64;

/// A connection as a request gets it.
#[derive(Debug)]
pub(super) enum Link {
    /// HTTP/1.1: for this request alone until its response is read.
    Alone(Connection),
    /// HTTP/2: others use it at the same time.
    Shared(Http2),
}

impl Link {
    pub(super) fn peer(&self) -> Peer {
        match self {
            Self::Alone(connection) => connection.peer,
            Self::Shared(connection) => connection.peer(),
        }
    }
}

#[derive(Debug)]
struct Kept {
    authority: Rc<str>,
    secure: bool,
    link: Link,
}

/// What [`Pool::take`] does with a kept connection.
enum Use {
    Take,
    Skip,
    Drop,
}

impl Kept {
    fn is_to(&self, url: &Url) -> bool {
        self.authority == url.authority && self.secure == url.secure
    }

    fn usable(&mut self) -> Use {
        match &mut self.link {
            Link::Alone(connection) => {
                if connection.is_idle() {
                    Use::Take
                } else {
                    Use::Drop
                }
            }
            Link::Shared(connection) if !connection.is_open() => Use::Drop,
            Link::Shared(connection) if connection.has_room() => Use::Take,
            Link::Shared(_) => Use::Skip,
        }
    }
}

/// Connections that may carry another request.
#[derive(Debug, Default)]
pub(super) struct Pool {
    kept: RefCell<Vec<Kept>>,
}

impl Pool {
    /// A kept connection to the host of `url` that is still open and not busy; closed ones found on the way go.
    pub(super) fn take(&self, url: &Url) -> Option<Link> {
        let kept = &mut *self.kept.borrow_mut();
        let mut end = kept.len();
        while let Some(at) = kept[..end].iter().rposition(|kept| kept.is_to(url)) {
            end = at;
            match (kept[at].usable(), &kept[at].link) {
                (Use::Skip, _) => {}
                (Use::Take, Link::Shared(connection)) => {
                    return Some(Link::Shared(connection.clone()));
                }
                (Use::Take, Link::Alone(_)) => return Some(kept.swap_remove(at).link),
                (Use::Drop, _) => {
                    kept.swap_remove(at);
                }
            }
        }
        None
    }

    /// Keeps a connection to the host of `url`; a shared one is in the pool from its start.
    pub(super) fn keep(&self, url: &Url, link: Link) {
        let kept = &mut *self.kept.borrow_mut();
        if kept.len() >= MAX_KEPT_CONNECTIONS {
            kept.remove(0);
        }
        kept.push(Kept { authority: url.authority.clone(), secure: url.secure, link });
    }

    /// Closes every kept connection.
    pub(super) fn clear(&self) {
        self.kept.borrow_mut().clear();
    }
}
