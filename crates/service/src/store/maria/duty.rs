//! The lock of the node that does the work that one node does for all.

use super::session::{Session, Use};
use super::{Maria, Shared};
use crate::store::Result;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A lock of the server that ends with its connection: when the node dies, another one takes it. Two nodes may have
/// it for a moment when a connection is lost; the work is then done twice, which is harmless.
pub(crate) struct Duty {
    shared: Arc<Shared>,
    session: Option<Session>,
}

impl Maria {
    pub(crate) fn duty(&self) -> Duty {
        Duty { shared: Arc::clone(&self.shared), session: None }
    }
}

impl Duty {
    /// Whether this node has the lock, or takes it now. Blocks the thread for a second at most for each query.
    pub(crate) fn is_mine(&mut self) -> bool {
        let mine = self.ask().unwrap_or_else(|error| {
            tracing::debug!(%error, "cannot ask who keeps house");
            self.session = None;
            false
        });
        self.shared.counted.keeps_house.store(mine, Relaxed);
        mine
    }

    fn ask(&mut self) -> Result<bool> {
        let session = match self.session.take() {
            Some(session) => session,
            None => {
                let (session, _) = self.shared.servers.connect(Use::Brief)?;
                // A node that is cut off or stopped loses the lock.
                session.batch("SET SESSION wait_timeout = 180")?;
                session
            }
        };
        let name = "CONCAT('madang.housekeeping.', DATABASE())";
        // A connection that has the lock would take it twice.
        let sql = format!(
            "SELECT COALESCE(IS_USED_LOCK({name}) = CONNECTION_ID(), 0) OR GET_LOCK({name}, 0)"
        );
        let mine: Option<Option<i64>> = session.text(&sql)?.first().and_then(|row| row.get(0));
        self.session = Some(session);
        Ok(mine.flatten() == Some(1))
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        self.shared.counted.keeps_house.store(false, Relaxed);
    }
}
