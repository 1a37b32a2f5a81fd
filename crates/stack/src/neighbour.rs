//! A server of somebody else that runs at a port of ours: what all of them have in common.

use std::io;
use std::time::Duration;

use crate::{Exit, Patience, PortReservation, Process, Result, Sample};

/// A server of somebody else at a free port of 127.0.0.1. Dropping it kills it.
#[derive(Debug)]
pub struct Neighbour {
    // Declared before the reservation: it is dropped first, so the port is ours until the end.
    pub(crate) process: Process,
    pub(crate) reservation: PortReservation,
    /// Time it gets to stop by itself.
    pub(crate) grace: Duration,
}

impl Neighbour {
    /// Its port of 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.reservation.port()
    }

    /// The process id of the server, or of the first of its processes.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// How it ended, or `None` while it runs.
    pub fn exit(&self) -> Option<Exit> {
        self.process.exit()
    }

    /// What it and its children use now. Errors as of [`Process::sample`].
    pub fn sample(&self) -> io::Result<Sample> {
        self.process.sample()
    }

    /// Stops it and waits until it is gone. Errors as of [`Process::stop`].
    pub fn stop(&self) -> Result<Exit> {
        self.stop_within(self.grace)
    }

    /// Stops it within another time, and waits until it is gone. Errors as of [`Process::stop`].
    pub fn stop_within<'q>(&self, patience: impl Into<Patience<'q>>) -> Result<Exit> {
        self.process.stop(patience)
    }
}
