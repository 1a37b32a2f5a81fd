//! The commands of pages of the documentation, run as they stand there, one page after the other.
//!
//! A variable of one command is there for the next, as in one terminal. A server that a block ends with stays and is
//! asked by what follows: addresses become its own. `madang` is otherwise a script that does what the
//! real one would, but briefly: a comparison is checked, not run. `curl` fails on a failed status. What a
//! session shows must be what the command prints; `…` stands for anything.

use crate::harness::command::{clean, program};
use crate::harness::{DEADLINE, Server, Setup};
use crate::nodes::Cluster;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What is not run: it builds or installs things, needs root, or another machine. What it names must be there.
const NOT_RUN: [&str; 7] = ["make ", "cargo ", "git ", "apt-get ", "sudo ", "docker ", "scp "];

/// The database of the pages; the tests have one of their own in its place.
const DATABASE: &str = "mysql://madang:secret@db.example/madang";

/// The file that keeps the variables of a shell for the next.
const VARIABLES: &str = "variables";

/// How a command of the page is run instead: small stores, no load, no nodes that stay.
const MADANG: &str = r#"#!/bin/bash
real=$REAL_MADANG
what=$1
case $what in
up)
	"$real" "$@" >upped 2>up.log &
	all=$!
	for _ in $(seq 1200); do
		grep -q '^ready in' upped && break
		sleep 0.05
	done
	kill -INT $all; wait $all
	grep '^ready in' upped || { cat up.log >&2; exit 1; }
	;;
compare | limit)
	[[ " $* " == *" --check "* ]] || set -- "$@" --check
	"$real" "$@" >checked || { cat checked >&2; exit 1; }
	[[ " $* " == *" --json "* ]] && echo '{"verdict": "supported", "answer": "same"}' || cat checked
	;;
load)
	[[ " $* " == *" --check "* ]] || set -- "$@" --check
	"$real" "$@" && echo checked
	;;
seed)
	"$real" "${@//000/}"
	;;
*) exec "$real" "$@" ;;
esac
"#;

const CURL: &str =
    "#!/bin/sh\nexec \"$REAL_CURL\" --fail-with-body --silent --show-error --max-time 20 \"$@\"\n";

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A command of a page.
#[derive(Debug, PartialEq)]
pub struct Typed {
    pub command: String,
    /// What a session shows of its output.
    shown: Vec<String>,
}

impl Typed {
    fn is_run(&self) -> bool {
        !NOT_RUN.iter().any(|what| self.command.starts_with(what))
    }

    /// Whether the page shows what the real command prints, where another one runs here.
    fn is_short(&self) -> bool {
        ["compare", "limit", "load", "up"]
            .iter()
            .any(|what| self.command.contains(&format!("madang {what}")))
    }
}

/// Whether a command goes on in the next line: after a backslash, within quotes, or until the end of a document.
fn is_open(command: &str) -> bool {
    if let Some((_, rest)) = command.split_once("<<") {
        let mut lines = rest.lines();
        let first = lines.next().unwrap_or_default().trim_matches('\'');
        return !lines.any(|line| line == first);
    }
    command.matches('\'').count() % 2 == 1 || command.ends_with('\\')
}

/// The commands of each block of a page, without comments.
pub fn blocks(page: &str) -> Vec<Vec<Typed>> {
    let mut found = Vec::new();
    let mut open: Option<(bool, Vec<Typed>)> = None;
    for line in page.lines() {
        let Some((is_session, block)) = &mut open else {
            match line.strip_prefix("```") {
                Some("sh" | "bash") => open = Some((false, Vec::new())),
                Some("console") => open = Some((true, Vec::new())),
                _ => {}
            }
            continue;
        };
        if line == "```" {
            found.extend(open.take().map(|(_, block)| block));
            continue;
        }
        let last = block.last_mut();
        if let Some(last) = last.filter(|last| last.shown.is_empty() && is_open(&last.command)) {
            last.command = format!("{}\n{line}", last.command);
            continue;
        }
        let typed = if *is_session { line.strip_prefix("$ ") } else { Some(line) };
        match (typed, block.last_mut()) {
            (Some(text), _) if text.trim().is_empty() || text.starts_with('#') => {}
            (Some(text), _) => block.push(Typed { command: text.to_owned(), shown: Vec::new() }),
            (None, Some(last)) if !line.is_empty() => last.shown.push(line.to_owned()),
            _ => {}
        }
    }
    found
}

/// Whether a line is as it was shown, where `…` stands for anything.
fn fits(shown: &str, line: &str) -> bool {
    let mut parts = shown.trim_end().split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.trim_end().strip_prefix(first) else { return false };
    let mut parts: Vec<_> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// A server that the page has started, and the directory of its data.
struct Served {
    data: String,
    server: Server,
}

impl Served {
    /// Stops it, unless the page has killed it.
    fn end(mut self) {
        self.server.signal(Signal::TERM);
        self.has_ended();
    }

    fn has_ended(&mut self) {
        let status = self.server.wait();
        assert!(status.success() || status.signal() == Some(9), "{status}: {}", self.server.log());
    }
}

/// Where pages' commands are run: what they name is there.
struct Place {
    dir: tempfile::TempDir,
    /// By the port that the page gives them.
    servers: BTreeMap<u16, Served>,
    /// Where those were that are gone, too.
    addresses: BTreeMap<u16, SocketAddr>,
    database: Option<Cluster>,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        for (name, text) in [("madang", MADANG), ("curl", CURL)] {
            std::fs::write(bin.join(name), text).unwrap();
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(bin.join(name), mode).unwrap();
        }
        for name in ["experiments", "docs", "data", "crates"] {
            symlink(root().join(name).canonicalize().unwrap(), dir.path().join(name)).unwrap();
        }
        Place { dir, servers: BTreeMap::new(), addresses: BTreeMap::new(), database: None }
    }

    /// Starts the server of a command, in place of an earlier one at its port.
    fn serve(&mut self, command: &str) {
        let (mut port, mut data, mut rest) = (8080, "madang-data", Vec::new());
        let mut words = command.split_whitespace().skip(2);
        while let Some(word) = words.next() {
            match word {
                "--listen" => {
                    port = words.next().unwrap().rsplit(':').next().unwrap().parse().unwrap();
                }
                "--data" => data = words.next().unwrap(),
                _ => rest.push(word),
            }
        }
        if let Some(earlier) = self.servers.remove(&port) {
            earlier.end();
        }
        let mut shell = clean("sh");
        shell.args(["-c", "cd \"$0\" && exec \"$@\""]).arg(self.dir.path()).arg(program());
        let setup = Setup::new().data(Path::new(data)).args(rest);
        let server = setup.set("server.metrics_listen", "127.0.0.1:0").start_through(shell);
        // A variable of the page that holds its address goes on holding it.
        if let Some(earlier) = self.addresses.insert(port, server.api) {
            let variables =
                self.file(VARIABLES).replace(&earlier.to_string(), &server.api.to_string());
            std::fs::write(self.dir.path().join(VARIABLES), variables).unwrap();
        }
        self.servers.insert(port, Served { data: data.to_owned(), server });
    }

    /// A block that kills a server is over when it has ended.
    fn forget_killed(&mut self, command: &str) {
        let named = |served: &Served| command.contains(&format!("{}/madang.lock", served.data));
        let killed =
            self.servers.extract_if(.., |_, served| command.starts_with("kill ") && named(served));
        for (_, mut served) in killed {
            served.has_ended();
        }
    }

    /// With the addresses of the servers in place of the page's.
    fn here(&mut self, text: &str) -> String {
        let mut parts = text.split("127.0.0.1:");
        let mut here = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
            let port = part[..part.len() - rest.len()].parse().unwrap_or(0);
            let served = if rest.starts_with("/metrics") {
                self.servers.values().next().map(|served| served.server.metrics)
            } else {
                self.servers.get(&port).map(|served| served.server.api)
            };
            here += &served.map_or(format!("127.0.0.1:{part}"), |at| format!("{at}{rest}"));
        }
        if here.contains(DATABASE) {
            let database = self.database.get_or_insert_with(Cluster::new);
            here = here.replace(DATABASE, &database.database.url());
        }
        here
    }

    /// Runs commands in one shell; what each printed and how it ended stands in files.
    fn run(&mut self, commands: &[&Typed]) {
        let mut script = format!("set -a; [ ! -f {VARIABLES} ] || . ./{VARIABLES}\n");
        for (at, typed) in commands.iter().enumerate() {
            let command = self.here(&typed.command);
            script += &format!("{{ {command}\n}} >out.{at} 2>err.{at}; echo $? >code.{at}\n");
        }
        script += &format!("export -p >{VARIABLES}\n");
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", self.dir.path().join("bin").display());
        let curl = Command::new("sh").args(["-c", "command -v curl"]).output().unwrap();
        let curl = String::from_utf8(curl.stdout).unwrap();
        let mut shell = clean("bash");
        shell.args(["-o", "pipefail", "-c", &script]).current_dir(self.dir.path());
        shell.env("PATH", path).env("REAL_MADANG", program()).env("REAL_CURL", curl.trim());
        let mut shell = shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + 4 * DEADLINE;
        while shell.try_wait().unwrap().is_none() {
            if Instant::now() > end {
                let _ = shell.kill();
                panic!("this block does not end: {commands:#?}");
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    fn file(&self, name: &str) -> String {
        let bytes = std::fs::read(self.dir.path().join(name)).unwrap_or_default();
        // An answer may be compressed.
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Runs a block; gives what is wrong with it.
    fn works(&mut self, block: &[Typed]) -> Vec<String> {
        let mut wrong: Vec<_> = block
            .iter()
            .filter(|typed| !typed.is_run())
            .filter_map(|typed| unfit(&typed.command))
            .collect();
        let mut run: Vec<_> = block.iter().filter(|typed| typed.is_run()).collect();
        // It stays: a block ends with it.
        let served = run.pop_if(|last| last.command.starts_with("madang serve"));
        assert!(run.iter().all(|one| !one.command.starts_with("madang serve")), "{run:?}");
        self.run(&run);
        for (at, typed) in run.iter().enumerate() {
            let [code, out, err] =
                ["code", "out", "err"].map(|what| self.file(&format!("{what}.{at}")));
            if let Some(why) = complaint(typed, &code, &out, &err) {
                wrong.push(format!("{}\n  {why}: {out}{err}", typed.command));
            }
            self.forget_killed(&typed.command);
        }
        if let Some(served) = served {
            self.serve(&served.command);
        }
        wrong
    }
}

/// What is wrong with a command's answer, if anything.
fn complaint(typed: &Typed, code: &str, out: &str, err: &str) -> Option<String> {
    let command = &typed.command;
    if code.trim() != "0" {
        return Some("it failed".to_owned());
    }
    if out.contains("\"items\":[]") {
        return Some("an empty list".to_owned());
    }
    if command.starts_with("curl ")
        && ![" -o ", " -so "].iter().any(|to_file| command.contains(to_file))
        && out.trim().is_empty()
    {
        return Some("an empty answer".to_owned());
    }
    let mut shown = typed.shown.iter().filter(|line| line.trim() != "…" && !typed.is_short());
    let missing =
        shown.find(|shown| !out.lines().chain(err.lines()).any(|line| fits(shown, line)))?;
    Some(format!("it does not print {missing:?}"))
}

/// What a command that is not run names and is not there.
fn unfit(command: &str) -> Option<String> {
    let text = |name: &str| std::fs::read_to_string(root().join(name)).unwrap();
    let all: String =
        ["deploy/systemd/madang.service", "deploy/systemd/madang-backup.service", "scripts/deb"]
            .map(text)
            .concat();
    let mut words = command.split(|c: char| c.is_whitespace() || "\"'=<>".contains(c)).peekable();
    let mut wrong = Vec::new();
    while let Some(word) = words.next() {
        let is_there = match word {
            "make" => {
                let target = words.next().unwrap_or_default();
                text("Makefile").lines().any(|line| line.starts_with(&format!("{target}:")))
            }
            "systemctl" | "journalctl" => {
                let verbs =
                    ["daemon-reload", "disable", "enable", "restart", "start", "status", "stop"];
                let units =
                    words.by_ref().filter(|one| !one.starts_with('-') && !verbs.contains(one));
                units.into_iter().filter(|unit| *unit != "nginx").all(|unit| {
                    let file = if unit.contains('.') {
                        unit.to_owned()
                    } else {
                        format!("{unit}.service")
                    };
                    root().join("deploy/systemd").join(file).exists()
                })
            }
            path if ["deploy/", "scripts/", "crates/"].iter().any(|dir| path.starts_with(dir)) => {
                root().join(path).exists()
            }
            path if ["/etc/madang", "/var/lib/madang", "/var/backups/madang"]
                .iter()
                .any(|at| path.starts_with(at)) =>
            {
                let dir: String = path
                    .split_inclusive('/')
                    .take(if path.starts_with("/etc") { 3 } else { 4 })
                    .collect();
                all.contains(dir.trim_end_matches('/'))
            }
            package if package.ends_with(".deb") => {
                let name = concat!("/madang_", env!("CARGO_PKG_VERSION"), "_amd64.deb");
                text("scripts/deb").contains("$out/madang_${version}_$architecture.deb")
                    && package.ends_with(name)
            }
            _ => true,
        };
        if !is_there {
            wrong.push(word);
        }
    }
    (!wrong.is_empty()).then(|| format!("{command}\n  names what is not there: {wrong:?}"))
}

/// Runs the commands of these pages, one after the other, in one place.
pub fn every_command_works(pages: &[String]) {
    let mut place = Place::new();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for page in pages {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        for block in blocks(&text) {
            count += block.len();
            wrong.extend(place.works(&block).into_iter().map(|why| format!("{page}: {why}")));
        }
    }
    assert!(count >= 5, "{pages:?}: only {count} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_a_command_must_not_answer() {
    let typed = |command: &str, shown: &[&str]| Typed {
        command: command.to_owned(),
        shown: shown.iter().map(|line| (*line).to_owned()).collect(),
    };
    let said = |typed: &Typed, code: &str, out: &str| complaint(typed, code, out, "");
    let asked = typed("curl x", &[]);
    assert_eq!(said(&asked, "0\n", "{\"items\":[]}").as_deref(), Some("an empty list"));
    assert_eq!(said(&asked, "0\n", "").as_deref(), Some("an empty answer"));
    assert_eq!(said(&typed("madang config", &[]), "2\n", "x").as_deref(), Some("it failed"));
    assert_eq!(said(&typed("base=x", &[]), "0\n", ""), None);
    let shown = typed("x", &["…", "a…c…"]);
    assert_eq!(said(&shown, "0\n", "b\nabcd\n"), None);
    assert!(said(&shown, "0\n", "abd\n").is_some());
}

#[test]
fn what_a_page_names_without_running_it_is_there() {
    for right in [
        "make dist",
        concat!("sudo apt-get install ./madang_", env!("CARGO_PKG_VERSION"), "_amd64.deb"),
        "sudo systemctl enable --now madang-backup.timer",
        "sudo nano /etc/madang/madang.toml",
        "sudo cp deploy/nginx/tuned.conf /etc/nginx/nginx.conf",
    ] {
        assert_eq!(unfit(right), None);
    }
    for wrong in [
        "make distribution",
        "sudo apt-get install ./mandang_0.1.0_amd64.deb",
        "sudo systemctl restart madang-backups.timer",
        "sudo journalctl -u mandang",
        "sudo nano /etc/madangs/madang.toml",
        "sudo cp deploy/nginx/best.conf /etc/nginx/nginx.conf",
    ] {
        assert!(unfit(wrong).is_some(), "{wrong}");
    }
}

#[test]
fn blocks_are_cut_into_commands_and_what_they_show() {
    let page = "```sh\na 'b\nc'\n# no\nd \\\n e\n```\ntext\n```console\n$ f\ng\n```\n```sh\nh <<'END'\n# i\nEND\nj\n```";
    let cut: Vec<Vec<_>> = blocks(page)
        .into_iter()
        .map(|block| block.into_iter().map(|typed| (typed.command, typed.shown)).collect())
        .collect();
    let plain = |command: &str| (command.to_owned(), Vec::new());
    assert_eq!(
        cut,
        [
            vec![plain("a 'b\nc'"), plain("d \\\n e")],
            vec![("f".to_owned(), vec!["g".to_owned()])],
            vec![plain("h <<'END'\n# i\nEND"), plain("j")],
        ]
    );
}
