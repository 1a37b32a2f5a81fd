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

/// Time limit of an expected event. Only a failing test waits this long, so it is generous: other tests, and people,
/// may keep the machine busy.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A new database on the MariaDB of `scripts/with-mariadb`; `None` outside of that script. A test that opens its
/// store with this runs over both stores: once by itself, once in the script.
///
/// # Panics
/// When the server does not create the database.
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

/// A fuzz target: its name, and the function that takes an input.
pub type FuzzTarget<'a> = (&'a str, fn(&[u8]));

/// Runs fuzz targets on their kept inputs, in `fuzz/seeds`.
///
/// # Panics
/// When a target panics on an input, whose name is then printed, or has no inputs.
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
            // Printed with the message of a panic.
            println!("{}", path.display());
            target(&input);
        }
    }
}

/// Time limit of a whole command, such as a comparison with its rounds.
pub const LONGEST: Duration = Duration::from_secs(600);

/// Polls until `look` returns a value. Blocks the thread.
///
/// # Panics
/// After [`DEADLINE`], with `what`, the awaited condition.
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

/// Lets the other tasks of this runtime run until a condition holds. Uses the real clock, even if the runtime's is
/// paused.
///
/// # Panics
/// After [`DEADLINE`], with `what`, the awaited condition.
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

/// Waits for the end of a process, and kills it at the deadline.
///
/// # Panics
/// When it has not ended by [`DEADLINE`].
#[track_caller]
pub fn ended(child: &mut Child) -> ExitStatus {
    ended_within(child, DEADLINE)
}

/// [`ended`] with another time limit.
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

/// Runs `body`, the calling test, in a process of its own. `test` is its full name; `through` is a wrapper command,
/// or empty.
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

/// Runs commands to their end.
pub trait Finish {
    /// Like [`Command::output`], but kills a command that does not end.
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
        // If the pipe breaks, what was read counts.
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

/// Kills a process at the deadline, so that a reader of its output reaches the end instead of waiting for ever. To be
/// dropped before the process is waited for.
#[derive(Debug)]
pub struct Watch {
    _over: Sender<()>,
}

impl Watch {
    /// Starts the time, [`DEADLINE`].
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

/// Reports that this test is skipped, with the reason: `skip!(is_possible, "no {thing} here")`. The test then
/// returns. `is_possible`: by an independent check, the test could have run.
#[macro_export]
macro_rules! skip {
    ($is_possible:expr, $($why:tt)+) => {
        $crate::left_out("skipped", env!("CARGO_PKG_NAME"), $is_possible, &format!($($why)+))
    };
}

/// Whether this long test runs: `if !drill!() { return; }`. Otherwise it is reported as skipped.
#[macro_export]
macro_rules! drill {
    () => {
        $crate::is_drill(env!("CARGO_PKG_NAME"))
    };
}

/// Whether this process can create cgroups with a CPU controller beneath its own: an independent check for tests of
/// CPU budgets.
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

/// Whether drills run; if not, reports this one as skipped.
#[doc(hidden)]
pub fn is_drill(package: &str) -> bool {
    let runs = std::env::var_os("MADANG_DRILLS").is_some_and(|value| value == "1");
    if !runs {
        left_out("drill", package, false, "runs with `make drills`");
    }
    runs
}

/// Appends `kind: package test: why` to the file that counts skipped tests. The test's name is that of its thread.
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
    // A single write in append mode: lines of concurrent processes do not mix.
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(&file);
    let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
    assert!(written.is_ok(), "cannot write {}: {written:?}", file.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_says_nothing_is_ended_for_its_reader() {
        // The process is killed here: waiting for the deadline would take a minute.
        let mut child = Command::new("sleep").arg("600").spawn().expect("sleep");
        let watch = Watch::over(&child);
        child.kill().expect("it runs");
        drop(watch);
        assert!(!ended(&mut child).success());
    }

    /// Runs one test of this binary in a process with these variables.
    fn child(variables: &[(&str, &str)]) -> bool {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "tests::leaves_itself_out", "--test-threads", "2"]);
        for name in ["CI", "MADANG_DRILLS", "MADANG_SKIPPED_FILE", "TESTING_CHILD"] {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied()).env("TESTING_CHILD", "1");
        command.finish().status.success()
    }

    /// Runs in the child process only.
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
