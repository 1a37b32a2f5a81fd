//! A running `madang serve`.

use super::client::{Answer, Connection};
use super::{command, database, eventually};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

/// How a server is to be started.
#[derive(Debug, Default)]
pub struct Setup {
    data: Option<PathBuf>,
    /// Instead of 127.0.0.1.
    ip: Option<IpAddr>,
    args: Vec<String>,
}

/// A server with a data directory of its own; killed when dropped.
#[derive(Debug)]
pub struct Server {
    pub child: Child,
    pub api: SocketAddr,
    pub metrics: SocketAddr,
    said: Arc<Mutex<String>>,
    log: Arc<Mutex<String>>,
    home: tempfile::TempDir,
}

impl Setup {
    pub fn new() -> Setup {
        Setup::default()
    }

    /// Uses this data directory instead of a fresh one.
    pub fn data(mut self, dir: &Path) -> Setup {
        self.data = Some(dir.to_owned());
        self
    }

    /// Listens for requests at this address.
    pub fn at(mut self, ip: IpAddr) -> Setup {
        self.ip = Some(ip);
        self
    }

    pub fn set(mut self, key: &str, value: &str) -> Setup {
        self.args.extend(["--set".to_owned(), format!("{key}={value}")]);
        self
    }

    /// Flags as they are typed.
    pub fn args<'a>(mut self, args: impl IntoIterator<Item = &'a str>) -> Setup {
        self.args.extend(args.into_iter().map(str::to_owned));
        self
    }

    pub fn demo(mut self) -> Setup {
        self.args.push("--demo".to_owned());
        self
    }

    pub fn start(self) -> Server {
        let command = command::clean(command::program());
        self.start_through(command)
    }

    /// Starts it through a command that ends in `exec`ing its arguments.
    pub fn start_through(self, command: Command) -> Server {
        self.launch(command, [Stdio::piped(), Stdio::piped()], |said, _| addresses(said))
    }

    /// Starts it with an output whose reader has gone; the address is then taken from the log.
    pub fn start_unheard(self) -> Server {
        self.start_saying(broken_pipe())
    }

    /// Starts it with an output whose reader takes nothing, as long as the reader lives.
    pub fn start_unread(self) -> (Server, std::io::PipeReader) {
        let (reader, writer) = std::io::pipe().unwrap();
        (self.start_saying(writer.into()), reader)
    }

    fn start_saying(self, stdout: Stdio) -> Server {
        let command = command::clean(command::program());
        self.launch(command, [stdout, Stdio::piped()], |_, log| {
            let address = log.split("address=").nth(1)?.split_once(' ')?.0.parse().ok()?;
            Some((address, address))
        })
    }

    /// Starts it with a log whose reader has gone.
    pub fn start_unlogged(self) -> Server {
        let command = command::clean(command::program());
        self.launch(command, [Stdio::piped(), broken_pipe()], |said, _| addresses(said))
    }

    /// Starts it and waits until `find` knows its addresses from its output and its log.
    fn launch(
        self,
        mut command: Command,
        [stdout, stderr]: [Stdio; 2],
        find: impl Fn(&str, &str) -> Option<(SocketAddr, SocketAddr)>,
    ) -> Server {
        let home = tempfile::tempdir().unwrap();
        let ip = self.ip.unwrap_or(Ipv4Addr::LOCALHOST.into());
        command.args(["serve", "--listen", &SocketAddr::new(ip, 0).to_string(), "--data"]);
        command.arg(self.data.unwrap_or_else(|| home.path().join("data")));
        command.args(self.args).current_dir(home.path());
        database::name_in(&mut command);
        let mut child = command.stdout(stdout).stderr(stderr).spawn().unwrap();
        let said = follow(child.stdout.take());
        let log = follow(child.stderr.take());
        let (api, metrics) = eventually("both addresses", || {
            let found = find(&said.lock().unwrap(), &log.lock().unwrap());
            if found.is_none()
                && let Some(status) = child.try_wait().unwrap()
            {
                panic!("the server ended with {status}: {}", log.lock().unwrap());
            }
            found
        });
        Server { child, api, metrics, said, log, home }
    }
}

/// Where writing fails, because the reader has gone.
fn broken_pipe() -> Stdio {
    let (_, writer) = std::io::pipe().unwrap();
    writer.into()
}

/// The two addresses, once both lines are there.
fn addresses(said: &str) -> Option<(SocketAddr, SocketAddr)> {
    let mut lines = said.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    let (first, second) = (lines.next()?, lines.next()?);
    let address = |line: &str, prefix: &str| -> SocketAddr {
        let text = line.strip_prefix(prefix).unwrap_or_else(|| panic!("unexpected line {line:?}"));
        text.parse().unwrap()
    };
    Some((address(first, "listening http://"), address(second, "metrics http://")))
}

/// What a stream says, line by line as it comes.
fn follow(stream: Option<impl std::io::Read + Send + 'static>) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let into = Arc::clone(&text);
    if let Some(stream) = stream {
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stream);
            let mut line = Vec::new();
            while matches!(lines.read_until(b'\n', &mut line), Ok(count) if count > 0) {
                into.lock().unwrap().push_str(&String::from_utf8_lossy(&line));
                line.clear();
            }
        });
    }
    text
}

impl Server {
    pub fn connect(&self) -> Connection {
        Connection::open(self.api)
    }

    /// A connection from 127.0.0.`host`.
    pub fn connect_from(&self, host: u8) -> Connection {
        Connection::open_from(host, self.api)
    }

    /// One GET on a connection of its own.
    pub fn get(&self, path: &str) -> Answer {
        self.connect().get(path)
    }

    /// One GET with these headers.
    pub fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.connect().request("GET", path, headers)
    }

    /// Every track there is, as the list shows it.
    pub fn tracks(&self) -> Vec<serde_json::Value> {
        let page = self.get("/v1/tracks?limit=100").json();
        assert_eq!(page["nextCursor"], serde_json::Value::Null, "more tracks than one page holds");
        page["items"].as_array().unwrap().clone()
    }

    /// The id of the one track with this many points.
    pub fn track_of(&self, points: u64) -> i64 {
        let tracks = self.tracks();
        let mut fits = tracks.iter().filter(|track| track["pointsTotal"] == points);
        let found = fits.next().unwrap_or_else(|| panic!("no track of {points} points"));
        assert!(fits.next().is_none(), "several tracks of {points} points");
        found["id"].as_i64().unwrap()
    }

    /// The text of `/metrics`.
    pub fn metrics_page(&self) -> String {
        let answer = Connection::open(self.metrics).get("/metrics");
        assert_eq!(answer.status, 200);
        answer.text()
    }

    /// The sum of every series of this name whose labels contain all of `labels` (`route="…"`).
    pub fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        sum(&self.metrics_page(), name, labels)
    }

    /// Waits until a metric has this value.
    pub fn until_metric(&self, name: &str, labels: &[&str], value: f64) {
        eventually(&format!("{name} {labels:?} = {value}"), || {
            ((self.metric(name, labels) - value).abs() < f64::EPSILON).then_some(())
        });
    }

    /// Reads of the store so far. The server's own, of its first minute, are among them and done.
    pub fn reads(&self) -> f64 {
        eventually("the first check of counts", || {
            (self.metric("madang_article_check_passes_total", &[]) > 0.0).then_some(())
        });
        let mut last = -1.0;
        // The first look for texts that are not in the index yet is made beside that check.
        eventually("two looks that agree", || {
            let reads = self.metric("madang_store_reads_total", &[]);
            ((std::mem::replace(&mut last, reads) - reads).abs() < 0.5).then_some(reads)
        })
    }

    /// The lines on its output after those with its addresses.
    pub fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().lines().skip(2).map(str::to_owned).collect()
    }

    /// Everything logged so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits for a line of the log that contains `part`, and gives it.
    pub fn until_logged(&self, part: &str) -> String {
        eventually(&format!("{part:?} in the log"), || {
            self.log().lines().find(|line| line.contains(part)).map(str::to_owned)
        })
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits until the process has ended.
    pub fn wait(&mut self) -> ExitStatus {
        eventually("the server ends", || self.child.try_wait().unwrap())
    }

    /// Signals it again and again until it ends: those that come soon after another are one wish.
    pub fn signalled_until_it_ends(&mut self, signal: Signal) -> ExitStatus {
        eventually("the server ends", || {
            self.signal(signal);
            self.child.try_wait().unwrap()
        })
    }

    /// Asks it to stop and asserts that it does, with success.
    pub fn stop(mut self) -> tempfile::TempDir {
        self.signal(Signal::TERM);
        let status = self.wait();
        assert_eq!(status.code(), Some(0), "{}", self.log());
        // The drop below has nothing left to kill.
        let empty = tempfile::tempdir().unwrap();
        std::mem::replace(&mut self.home, empty)
    }

    /// Asserts that the server still answers, and that nothing panicked in it.
    pub fn is_well(&self) {
        assert_eq!(self.get("/health/ready").status, 200);
        assert!(!self.log().contains("panicked"), "{}", self.log());
        assert!(self.metric("madang_http_server_handler_panics_total", &[]).abs() < f64::EPSILON);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the server ({:?}) had logged: {}", self.child.try_wait(), self.log());
        }
        // Gone already in tests of its end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sum of every series of this name with these labels; a missing series counts as nothing.
pub fn sum(page: &str, name: &str, labels: &[&str]) -> f64 {
    page.lines()
        .filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let (found, rest) = series.split_once('{').unwrap_or((series, ""));
            let fits = found == name && labels.iter().all(|label| rest.contains(label));
            fits.then(|| value.parse::<f64>().unwrap())
        })
        .sum()
}
