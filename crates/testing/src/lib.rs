#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use std::io::{Read, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long anything may take that is expected to happen. Only a failing test waits this long, so it is
/// generous: other tests, and people, may keep the machine busy.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// An empty database of its own on the MariaDB that `scripts/with-mariadb` has started; nothing without one. A test
/// that opens its store with this runs over both stores: once by itself, once in that script.
///
/// # Panics
/// When there is a server and it makes no database.
pub fn database() -> Option<String> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let server = std::env::var("MADANG_TEST_MARIADB").ok()?;
    let name = format!("test_{}_{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    let port = server.rsplit(':').next().unwrap_or_default();
    let make = format!("CREATE DATABASE {name}");
    let client = Command::new("mariadb")
        .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--user=root"])
        .args([&format!("--port={port}"), "--execute", &make])
        .status();
    assert!(client.is_ok_and(|status| status.success()), "{server} makes no database");
    Some(format!("{server}/{name}"))
}

/// A fuzz target: its name, and what is done with the bytes of an input.
pub type FuzzTarget<'a> = (&'a str, fn(&[u8]));

/// Runs targets of the fuzzer on the inputs that are kept for them, in `fuzz/seeds`.
///
/// # Panics
/// When a target does on one of them, which is then named, or has none.
pub fn replay(targets: &[FuzzTarget<'_>]) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    for (name, target) in targets {
        let dir = seeds.join(name);
        let files = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
        paths.sort();
        assert!(!paths.is_empty(), "{} is empty", dir.display());
        for path in paths {
            let input = std::fs::read(&path).expect("a file that can be read");
            // Shown with the message of a panic.
            println!("{}", path.display());
            target(&input);
        }
    }
}

/// How long a whole command may run, such as a comparison with its rounds.
pub const LONGEST: Duration = Duration::from_secs(600);

/// Looks again and again until `look` finds something. Blocks the thread.
///
/// # Panics
/// When it has not by [`DEADLINE`]; `what` says what was waited for.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Lets the other tasks of this runtime run until something holds. Goes by the real clock, also where the
/// runtime's is paused.
///
/// # Panics
/// When it does not hold by [`DEADLINE`]; `what` says what was waited for.
pub async fn until_async(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        let mut yielded = false;
        let once = std::future::poll_fn(|cx| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        });
        once.await;
    }
}

/// Waits for the end of a process, and kills it when that does not come.
///
/// # Panics
/// When it has not ended by [`DEADLINE`].
#[track_caller]
pub fn ended(child: &mut Child) -> ExitStatus {
    ended_within(child, DEADLINE)
}

/// [`ended`], for what may take longer.
///
/// # Panics
/// When it has not ended by then.
#[track_caller]
pub fn ended_within(child: &mut Child, longest: Duration) -> ExitStatus {
    let end = Instant::now() + longest;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status,
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(2)),
            other => {
                let _ = child.kill();
                let _ = child.wait();
                panic!("the process {} did not end: {other:?}", child.id());
            }
        }
    }
}

/// Runs a test again in a process of its own, through a command that runs what follows it (none: directly); `test` is the
/// full name of the calling test, and `body` what it does there.
///
/// # Panics
/// When that process does not run the test, or the test fails there.
#[track_caller]
pub fn alone(test: &str, through: &[&str], body: impl FnOnce()) {
    const MARK: &str = "MADANG_TEST_ALONE";
    if std::env::var_os(MARK).is_some() {
        return body();
    }
    let own = std::env::current_exe().expect("this program");
    let mut command = match through {
        [] => Command::new(own),
        [program, args @ ..] => {
            let mut command = Command::new(program);
            command.args(args).arg(own);
            command
        }
    };
    let ran = command.args(["--exact", test, "--test-threads=1"]).env(MARK, "1").finish();
    let text = String::from_utf8_lossy(&ran.stdout);
    // A wrong name would run nothing and succeed.
    let passed = ran.status.success() && text.contains("1 passed");
    assert!(passed, "{}\n{text}\n{}", ran.status, String::from_utf8_lossy(&ran.stderr));
}

/// Commands that are run to their end.
pub trait Finish {
    /// What [`Command::output`] answers, except that a command that does not end is killed.
    ///
    /// # Panics
    /// When it cannot start, or has not ended within [`LONGEST`].
    fn finish(&mut self) -> Output;
}

impl Finish for Command {
    #[track_caller]
    fn finish(&mut self) -> Output {
        let spawned =
            self.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.unwrap_or_else(|error| panic!("{self:?} does not start: {error}"));
        let stdout = child.stdout.take().map(read_all);
        let stderr = child.stderr.take().map(read_all);
        let status = ended_within(&mut child, LONGEST);
        let [stdout, stderr] = [stdout, stderr]
            .map(|reader| reader.and_then(|reader| reader.join().ok()).unwrap_or_default());
        Output { status, stdout, stderr }
    }
}

fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What could be read of a pipe that breaks is what there is.
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

/// Kills a process at the deadline, so that whoever reads from it comes to the end of its output instead of
/// waiting for ever. Dropped before the process is waited for.
#[derive(Debug)]
pub struct Watch {
    _over: Sender<()>,
}

impl Watch {
    /// From now on, for [`DEADLINE`].
    pub fn over(child: &Child) -> Watch {
        let (over, is_over) = channel::<()>();
        let pid = child.id().to_string();
        std::thread::spawn(move || {
            if is_over.recv_timeout(DEADLINE) == Err(RecvTimeoutError::Timeout) {
                let _ = Command::new("kill").args(["-9", &pid]).status();
            }
        });
        Watch { _over: over }
    }
}

/// Reports that this test does not run, and why: `skip!(is_possible, "no {thing} here")`. The test returns
/// then. `is_possible` says whether the means seem to be there by another sign than the one that it failed by.
#[macro_export]
macro_rules! skip {
    ($is_possible:expr, $($why:tt)+) => {
        $crate::left_out("skipped", env!("CARGO_PKG_NAME"), $is_possible, &format!($($why)+))
    };
}

/// Whether this long test is to run: `if !drill!() { return; }`. Otherwise it is reported as left out.
#[macro_export]
macro_rules! drill {
    () => {
        $crate::is_drill(env!("CARGO_PKG_NAME"))
    };
}

/// Whether this process may make cgroups with a CPU controller beneath its own: a sign of its own for tests of
/// CPU budgets, beside what the program under test finds.
pub fn can_make_cgroups() -> bool {
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    text.lines().any(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, kinds, path) = (parts.next(), parts.next(), parts.next());
        let (Some(kinds), Some(path)) = (kinds, path) else { return false };
        let (root, file) = match kinds {
            "" => ("/sys/fs/cgroup", "cpu.max"),
            kinds if kinds.split(',').any(|kind| kind == "cpu") => {
                ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us")
            }
            _ => return false,
        };
        let name = format!("testing-{}", std::process::id());
        let dir = Path::new(root).join(path.trim_start_matches('/')).join(name);
        let is_made = std::fs::create_dir(&dir).is_ok();
        let is_limited = is_made && dir.join(file).exists();
        let _ = std::fs::remove_dir(&dir);
        is_limited
    })
}

/// Whether drills run; reports this one if not.
#[doc(hidden)]
pub fn is_drill(package: &str) -> bool {
    let runs = std::env::var_os("MADANG_DRILLS").is_some_and(|value| value == "1");
    if !runs {
        left_out("drill", package, false, "runs with `make drills`");
    }
    runs
}

/// Appends `kind: package test: why` where it is counted. A test is named by its thread.
///
/// # Panics
/// When `CI` is set and the test could have run.
#[doc(hidden)]
pub fn left_out(kind: &str, package: &str, is_possible: bool, why: &str) {
    let thread = std::thread::current();
    let line = format!("{kind}: {package} {}: {why}\n", thread.name().unwrap_or("?"));
    let is_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(!(is_ci && is_possible), "the means are there, and yet: {line}");
    print!("{line}");
    let Some(file) = std::env::var_os("MADANG_SKIPPED_FILE") else { return };
    // One write to a file that is appended to: lines of many test processes do not mix.
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(&file);
    let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
    assert!(written.is_ok(), "cannot write {}: {written:?}", file.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_says_nothing_is_ended_for_its_reader() {
        // What is watched is ended in time here: the deadline itself would take a minute.
        let mut child = Command::new("sleep").arg("600").spawn().expect("sleep");
        let watch = Watch::over(&child);
        child.kill().expect("it runs");
        drop(watch);
        assert!(!ended(&mut child).success());
    }

    /// This test binary, as a process that runs one test with these variables.
    fn child(variables: &[(&str, &str)]) -> bool {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "tests::leaves_itself_out", "--test-threads", "2"]);
        for name in ["CI", "MADANG_DRILLS", "MADANG_SKIPPED_FILE", "TESTING_CHILD"] {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied()).env("TESTING_CHILD", "1");
        command.finish().status.success()
    }

    /// Not a test by itself: what the child process does.
    #[test]
    fn leaves_itself_out() {
        if std::env::var_os("TESTING_CHILD").is_none() {
            return;
        }
        skip!(std::env::var_os("POSSIBLE").is_some(), "no {} here", "cgroups");
        let _ = drill!();
    }

    #[test]
    fn what_is_left_out_is_written_down_and_fails_where_ci_could_run_it() {
        let file = std::env::temp_dir().join(format!("madang-skipped-{}", std::process::id()));
        let name = file.to_str().expect("a path of ours");
        assert!(child(&[("MADANG_SKIPPED_FILE", name)]));
        assert!(child(&[("MADANG_SKIPPED_FILE", name), ("CI", "true"), ("MADANG_DRILLS", "1")]));
        let written = std::fs::read_to_string(&file);
        let _ = std::fs::remove_file(&file);
        let skipped = "skipped: madang-testing tests::leaves_itself_out: no cgroups here\n";
        let drill = "drill: madang-testing tests::leaves_itself_out: runs with `make drills`\n";
        assert_eq!(written.expect("it was written"), [skipped, drill, skipped].concat());
        assert!(child(&[("POSSIBLE", "1")]));
        assert!(!child(&[("POSSIBLE", "1"), ("CI", "1")]));
    }
}
