//! Threads that end with their owner.

use std::io;
use std::thread::{self, JoinHandle};

/// A thread that is joined on drop. Its owner must ask it to end before: in its own `Drop`, or with a sender in an
/// earlier field.
#[derive(Debug)]
pub(crate) struct Joined(Option<JoinHandle<()>>);

impl Joined {
    pub(crate) fn spawn(
        name: impl Into<String>,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        Ok(Self(Some(thread::Builder::new().name(name.into()).spawn(work)?)))
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        // The last handle may be dropped by the thread itself, which cannot wait for itself.
        if let Some(thread) = self.0.take()
            && thread.thread().id() != thread::current().id()
        {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}
