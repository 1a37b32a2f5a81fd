//! Which of several nodes does what is done once for all of them.

use super::session::{Session, Use};
use super::{Maria, Shared};
use crate::store::Result;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A lock of the server that goes with its connection: when the node dies, another one takes it. Two nodes may have
/// it for a moment when a connection is lost; what is done under it is right all the same, and done twice.
pub(in crate::store) struct Duty {
    shared: Arc<Shared>,
    session: Option<Session>,
}

impl Maria {
    pub(in crate::store) fn duty(&self) -> Duty {
        Duty { shared: Arc::clone(&self.shared), session: None }
    }
}

impl Duty {
    /// Whether it is this node's. Blocks the thread for as long as the server takes, a second at most
    /// for each thing that it is asked.
    pub(in crate::store) fn is_mine(&mut self) -> bool {
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
                // A node that is cut off, or stopped, has had it for long enough.
                session.batch("SET SESSION wait_timeout = 180")?;
                session
            }
        };
        let name = "CONCAT('madang.housekeeping.', DATABASE())";
        // A connection that has it would have it twice.
        let sql = format!(
            "SELECT COALESCE(IS_USED_LOCK({name}) = CONNECTION_ID(), 0) OR GET_LOCK({name}, 0)"
        );
        let rows = session.text(&sql)?;
        let mine = rows.first().and_then(|row| row.get::<Option<i64>, _>(0)).flatten();
        self.session = Some(session);
        Ok(mine == Some(1))
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        self.shared.counted.keeps_house.store(false, Relaxed);
    }
}
