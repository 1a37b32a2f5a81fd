//! Common part of third-party servers (MariaDB, nginx, Redis).

use std::io;
use std::time::Duration;

use crate::{Exit, Patience, PortReservation, Process, Result, Sample};

/// A third-party server at a free port of 127.0.0.1. Dropping it kills it.
#[derive(Debug)]
pub struct ThirdPartyServer {
    // Declared, and so dropped, before the reservation: the port is ours until the end.
    pub(crate) process: Process,
    pub(crate) reservation: PortReservation,
    /// Time from SIGTERM to SIGKILL.
    pub(crate) grace: Duration,
}

impl ThirdPartyServer {
    /// Port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.reservation.port()
    }

    /// Process id of the server, or of its first process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Exit; `None` while it runs.
    pub fn exit(&self) -> Option<Exit> {
        self.process.exit()
    }

    /// Resource use of the server and its children.
    ///
    /// # Errors
    /// As [`Process::sample`].
    pub fn sample(&self) -> io::Result<Sample> {
        self.process.sample()
    }

    /// Stops the server and waits until it is gone.
    ///
    /// # Errors
    /// As [`Process::stop`].
    pub fn stop(&self) -> Result<Exit> {
        self.stop_within(self.grace)
    }

    /// As [`stop`](Self::stop), with another grace period.
    ///
    /// # Errors
    /// As [`Process::stop`].
    pub fn stop_within<'q>(&self, patience: impl Into<Patience<'q>>) -> Result<Exit> {
        self.process.stop(patience)
    }
}
