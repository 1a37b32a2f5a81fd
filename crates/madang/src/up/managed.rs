//! Servers that are restarted when they end.

use super::plan::Plan;
use super::report::log;
use super::stopping::Stopping;
use anyhow::Context as _;
use madang_stack::{Error, Exit, Patience, Supervisor, ThirdPartyServer};
use parking_lot::Mutex;
use std::fs::DirBuilder;
use std::ops::Deref;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval between two checks of a server.
const POLL: Duration = Duration::from_millis(50);
/// Pause before most servers are restarted; doubled each time one ends soon.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// After this time a server has not ended soon.
const LASTING: Duration = Duration::from_secs(10);
/// Grace period of nginx and the databases; each needs less.
const STOP_TIME: Duration = Duration::from_secs(20);

/// Context of starting and stopping servers.
pub(crate) struct Context {
    pub supervisor: Supervisor,
    pub stopping: Arc<Stopping>,
    pub plan: Plan,
    /// Directory of all data and logs.
    pub dir: PathBuf,
}

impl Context {
    /// Creates a directory, if missing, for everybody that the umask permits, or for this user alone.
    pub(crate) fn create_dir(&self, name: &str, is_private: bool) -> anyhow::Result<PathBuf> {
        let dir = self.dir.join(name);
        let mode = if is_private { 0o700 } else { 0o777 };
        let made = DirBuilder::new().recursive(true).mode(mode).create(&dir);
        made.with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(dir)
    }
}

/// A server at a fixed address.
pub(crate) trait Server: Send {
    /// Process id of the last start.
    fn pid(&self) -> Option<u32>;
    /// Exit; `None` while it runs.
    fn exit(&self) -> Option<Exit>;
    /// First pause before a restart.
    fn pause(&self) -> Duration {
        FIRST_PAUSE
    }
    /// Stops the server if it runs, starts it, and waits until it is ready.
    fn restart(&mut self, context: &Context) -> Result<(), Error>;
    /// Stops the server and waits until it is gone.
    fn stop(&mut self, context: &Context) -> Result<(), Error>;
}

/// A third-party server.
pub(crate) struct External<S> {
    pub server: S,
    pub restart: fn(&mut S, &Supervisor) -> Result<(), Error>,
    pub pause: Duration,
}

impl<S: Deref<Target = ThirdPartyServer> + Send> Server for External<S> {
    fn pid(&self) -> Option<u32> {
        Some(self.server.pid())
    }

    fn exit(&self) -> Option<Exit> {
        self.server.exit()
    }

    fn pause(&self) -> Duration {
        self.pause
    }

    fn restart(&mut self, context: &Context) -> Result<(), Error> {
        (self.restart)(&mut self.server, &context.supervisor)
    }

    fn stop(&mut self, context: &Context) -> Result<(), Error> {
        let is_urgent = || context.stopping.is_urgent();
        self.server.stop_within(Patience::new(STOP_TIME, &is_urgent)).map(drop)
    }
}

/// A server with its name and log in messages.
pub(crate) struct Managed {
    pub name: String,
    pub log: PathBuf,
    state: Mutex<State>,
}

struct State {
    server: Box<dyn Server>,
    /// When it became ready; `None` while it is not.
    ready: Option<Instant>,
}

impl State {
    fn start(&mut self, context: &Context) -> Result<(), Error> {
        self.ready = None;
        self.server.restart(context)?;
        self.ready = Some(Instant::now());
        Ok(())
    }
}

impl Managed {
    /// Takes a server that runs or is still to be started.
    pub(crate) fn new(name: String, log: PathBuf, server: impl Server + 'static) -> Arc<Self> {
        let state = State { server: Box::new(server), ready: None };
        Arc::new(Self { name, log, state: Mutex::new(state) })
    }

    /// Process id of the last start.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.state.lock().server.pid()
    }

    /// Starts the server for the first time.
    pub(crate) fn start(&self, context: &Context) -> Result<(), Error> {
        self.state.lock().start(context)
    }

    /// Whether the server has been ready for at least `time`.
    pub(crate) fn has_served_for(&self, time: Duration) -> bool {
        let state = self.state.lock();
        state.server.exit().is_none() && state.ready.is_some_and(|since| since.elapsed() >= time)
    }

    /// Restarts the server; returns the time taken, or `None` when this process is stopping.
    pub(crate) fn restart(&self, context: &Context) -> Result<Option<Duration>, Error> {
        let begun = Instant::now();
        let mut state = self.state.lock();
        // Checked under the lock: a stop of all servers may just have stopped this one.
        if context.stopping.is_requested() {
            return Ok(None);
        }
        state.start(context)?;
        Ok(Some(begun.elapsed()))
    }

    /// Stops the server. An error is only reported, because others have to be stopped, too.
    pub(crate) fn stop(&self, context: &Context) {
        if let Err(error) = self.state.lock().server.stop(context) {
            log(format_args!("{}: {error}", self.name));
        }
    }

    /// Starts a thread that restarts the server whenever it ends, until this process stops.
    pub(crate) fn keep(
        managed: &Arc<Self>,
        context: &Arc<Context>,
    ) -> std::io::Result<JoinHandle<()>> {
        let (managed, context) = (Arc::clone(managed), Arc::clone(context));
        let name = format!("keep-{}", managed.name);
        std::thread::Builder::new().name(name).spawn(move || managed.watch(&context))
    }

    fn watch(&self, context: &Context) {
        let first = self.state.lock().server.pause();
        let (mut pause, mut since) = (first, Instant::now());
        while !context.stopping.pause(POLL) {
            let Some(exit) = self.state.lock().server.exit() else { continue };
            if since.elapsed() > LASTING {
                pause = first;
            }
            log(format_args!("{} ended ({exit}); starting it again in {pause:?}", self.name));
            if context.stopping.pause(pause) {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE.max(first));
            self.revive(context);
            since = Instant::now();
        }
    }

    fn revive(&self, context: &Context) {
        let mut state = self.state.lock();
        // `up restart` may have been faster; as to the stop, see `restart`.
        if state.server.exit().is_none() || context.stopping.is_requested() {
            return;
        }
        match state.start(context) {
            Ok(()) => log(format_args!("{} is ready again", self.name)),
            Err(Error::GivenUp { .. }) => {}
            Err(error) => {
                let file = self.log.display();
                log(format_args!("{} does not start: {error}; see {file}", self.name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    /// Ends immediately after each start.
    struct Mayfly {
        starts: Sender<Instant>,
    }

    impl Server for Mayfly {
        fn pid(&self) -> Option<u32> {
            None
        }

        fn exit(&self) -> Option<Exit> {
            Some(Exit::Code(0))
        }

        fn restart(&mut self, _means: &Context) -> Result<(), Error> {
            let _ = self.starts.send(Instant::now());
            Ok(())
        }

        fn stop(&mut self, _means: &Context) -> Result<(), Error> {
            Ok(())
        }
    }

    #[test]
    fn a_server_that_ends_with_success_at_once_is_started_again_after_longer_and_longer_pauses() {
        let supervisor = Supervisor::new("/bin/false", ["unused"]);
        let plan = crate::up::planned([""; 0]).unwrap();
        let (stopping, dir) = (Arc::default(), PathBuf::new());
        let context = Arc::new(Context { supervisor, stopping, plan, dir });
        let (starts, started) = channel();
        let managed = Managed::new("mayfly".into(), "/dev/null".into(), Mayfly { starts });
        let keeper = Managed::keep(&managed, &context).unwrap();
        let times: Vec<Instant> = started.iter().take(4).collect();
        context.stopping.request();
        keeper.join().unwrap();
        let pauses: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for (pause, least) in pauses.iter().zip([2, 4, 8]) {
            assert!(*pause >= FIRST_PAUSE * least, "{pauses:?}");
        }
        assert!(managed.restart(&context).unwrap().is_none(), "nothing is started after the end");
    }
}
