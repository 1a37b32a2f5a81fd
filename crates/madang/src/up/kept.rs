//! A server that is started again when it ends.

use super::report::tell;
use super::stopping::Stopping;
use madang_stack::{Error, Exit, Neighbour, Patience, Supervisor};
use parking_lot::Mutex;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two looks whether a server still runs.
const LOOK: Duration = Duration::from_millis(50);
/// Pause before most servers are started again; doubled each time one ends soon.
pub const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// A server that ran for so long did not end soon.
const LASTING: Duration = Duration::from_secs(10);
/// Time that nginx and the databases get to stop; each needs less.
const STOP_TIME: Duration = Duration::from_secs(20);

/// What starting and stopping needs.
pub struct Means {
    pub supervisor: Supervisor,
    pub stopping: Arc<Stopping>,
}

/// A server at an address of its own.
pub trait Part: Send {
    /// Process id, while it runs or as it was.
    fn pid(&self) -> Option<u32>;
    /// How it ended, or `None` while it runs.
    fn exit(&self) -> Option<Exit>;
    /// Pause before it is started again for the first time.
    fn pause(&self) -> Duration {
        FIRST_PAUSE
    }
    /// Starts it, stopping it first if it runs, and waits until it is ready.
    fn restart(&mut self, means: &Means) -> Result<(), Error>;
    /// Stops it and waits until it is gone.
    fn stop(&mut self, means: &Means) -> Result<(), Error>;
}

/// A server of somebody else.
pub struct Beside<S> {
    pub server: S,
    pub restart: fn(&mut S, &Supervisor) -> Result<(), Error>,
    pub pause: Duration,
}

impl<S: Deref<Target = Neighbour> + Send> Part for Beside<S> {
    fn pid(&self) -> Option<u32> {
        Some(self.server.pid())
    }

    fn exit(&self) -> Option<Exit> {
        self.server.exit()
    }

    fn pause(&self) -> Duration {
        self.pause
    }

    fn restart(&mut self, means: &Means) -> Result<(), Error> {
        (self.restart)(&mut self.server, &means.supervisor)
    }

    fn stop(&mut self, means: &Means) -> Result<(), Error> {
        let hurries = || means.stopping.hurries();
        self.server.stop_within(Patience::new(STOP_TIME, &hurries)).map(drop)
    }
}

/// A server with the name and the log that people see.
pub struct Kept {
    pub name: String,
    pub log: PathBuf,
    held: Mutex<Held>,
}

struct Held {
    part: Box<dyn Part>,
    /// When it last became ready; none while it is not.
    ready: Option<Instant>,
}

impl Held {
    fn start(&mut self, means: &Means) -> Result<(), Error> {
        self.ready = None;
        self.part.restart(means)?;
        self.ready = Some(Instant::now());
        Ok(())
    }
}

impl Kept {
    /// A server that runs already, or is still to be started.
    pub fn new(name: String, log: PathBuf, part: impl Part + 'static) -> Self {
        let held = Held { part: Box::new(part), ready: None };
        Self { name, log, held: Mutex::new(held) }
    }

    /// Process id, while it runs or as it was.
    pub fn pid(&self) -> Option<u32> {
        self.held.lock().part.pid()
    }

    /// Starts it for the first time.
    pub fn start(&self, means: &Means) -> Result<(), Error> {
        self.held.lock().start(means)
    }

    /// Whether it has been ready for this long.
    pub fn has_served_for(&self, time: Duration) -> bool {
        let held = self.held.lock();
        held.part.exit().is_none() && held.ready.is_some_and(|since| since.elapsed() >= time)
    }

    /// Restarts it; answers how long that took, or nothing when this process is to stop.
    pub fn restart(&self, means: &Means) -> Result<Option<Duration>, Error> {
        let begun = Instant::now();
        let mut held = self.held.lock();
        // Asked with the lock held: whoever stops all servers may have stopped this one just now.
        if means.stopping.is_asked() {
            return Ok(None);
        }
        held.start(means)?;
        Ok(Some(begun.elapsed()))
    }

    /// Stops it. A failure is reported, for others have still to be stopped.
    pub fn stop(&self, means: &Means) {
        if let Err(error) = self.held.lock().part.stop(means) {
            tell(format_args!("{}: {error}", self.name));
        }
    }

    /// Starts a thread that starts the server again whenever it has ended, until this process is to
    /// stop.
    pub fn keep(kept: &Arc<Self>, means: &Arc<Means>) -> std::io::Result<JoinHandle<()>> {
        let (kept, means) = (Arc::clone(kept), Arc::clone(means));
        let name = format!("keep-{}", kept.name);
        std::thread::Builder::new().name(name).spawn(move || kept.watch(&means))
    }

    fn watch(&self, means: &Means) {
        let first = self.held.lock().part.pause();
        let (mut pause, mut since) = (first, Instant::now());
        while !means.stopping.pause(LOOK) {
            let Some(exit) = self.held.lock().part.exit() else { continue };
            if since.elapsed() > LASTING {
                pause = first;
            }
            tell(format_args!("{} ended ({exit}); starting it again in {pause:?}", self.name));
            if means.stopping.pause(pause) {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE.max(first));
            self.revive(means);
            since = Instant::now();
        }
    }

    fn revive(&self, means: &Means) {
        let mut held = self.held.lock();
        // `up restart` may have been faster; and see `restart`.
        if held.part.exit().is_none() || means.stopping.is_asked() {
            return;
        }
        match held.start(means) {
            Ok(()) => tell(format_args!("{} is ready again", self.name)),
            Err(Error::GivenUp { .. }) => {}
            Err(error) => {
                let log = self.log.display();
                tell(format_args!("{} does not start: {error}; see {log}", self.name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    /// Ends whenever it is started.
    struct Mayfly {
        starts: Sender<Instant>,
    }

    impl Part for Mayfly {
        fn pid(&self) -> Option<u32> {
            None
        }

        fn exit(&self) -> Option<Exit> {
            Some(Exit::Code(0))
        }

        fn restart(&mut self, _means: &Means) -> Result<(), Error> {
            let _ = self.starts.send(Instant::now());
            Ok(())
        }

        fn stop(&mut self, _means: &Means) -> Result<(), Error> {
            Ok(())
        }
    }

    #[test]
    fn a_server_that_ends_with_success_at_once_is_started_again_after_longer_and_longer_pauses() {
        let supervisor = Supervisor::new("/bin/false", ["unused"]);
        let means = Arc::new(Means { supervisor, stopping: Arc::default() });
        let (starts, started) = channel();
        let kept = Arc::new(Kept::new("mayfly".into(), "/dev/null".into(), Mayfly { starts }));
        let keeper = Kept::keep(&kept, &means).unwrap();
        let times: Vec<Instant> = started.iter().take(4).collect();
        means.stopping.ask();
        keeper.join().unwrap();
        let pauses: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for (pause, least) in pauses.iter().zip([2, 4, 8]) {
            assert!(*pause >= FIRST_PAUSE * least, "{pauses:?}");
        }
        assert!(kept.restart(&means).unwrap().is_none(), "nothing is started after the end");
    }
}
