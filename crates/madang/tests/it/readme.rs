//! The commands of README.md and README.ko.md, run as they stand there, against a filled server.
//!
//! Each block runs in one shell, so that a variable of one command is there for the next. Addresses
//! become those of the server. `madang` is a script that does what the real one would, but briefly: a
//! comparison is checked, not run; a server ends when it is ready. `curl` fails on a failed status.

use crate::harness::command::{clean, program};
use crate::harness::{DEADLINE, Server, Setup};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What is not run: it builds or installs things, or needs another machine.
const NOT_RUN: [&str; 6] = ["make ", "cargo ", "git ", "apt-get ", "sudo ", "docker "];

/// How a command of the page is run instead: small stores, no load, no server that stays.
const MADANG: &str = r#"#!/bin/bash
real=$REAL_MADANG
what=$1
case $what in
serve)
	shift
	# The server of the test has the address of the page.
	[[ " $* " == *" --listen "* ]] || set -- "$@" --listen 127.0.0.1:0
	"$real" serve "$@" >served 2>served.log &
	server=$!
	for _ in $(seq 600); do
		grep -q '^metrics' served && break
		sleep 0.05
	done
	kill $server; wait $server
	grep '^listening' served || { cat served.log >&2; exit 1; }
	;;
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
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The blocks of commands of a page: of a session only what was typed.
fn blocks(page: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut open: Option<(bool, Vec<String>)> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some("sh" | "bash"), None) => open = Some((false, Vec::new())),
            (Some("console"), None) => open = Some((true, Vec::new())),
            (Some(""), Some(_)) => found.extend(open.take().map(|(_, lines)| lines)),
            (_, Some((false, lines))) => lines.push(line.to_owned()),
            // What was typed, and the lines on which it goes on.
            (_, Some((true, lines))) => match (line.strip_prefix("$ "), lines.last()) {
                (Some(typed), _) => lines.push(typed.to_owned()),
                (None, Some(last)) if last.ends_with('\\') => lines.push(line.to_owned()),
                _ => {}
            },
            _ => {}
        }
    }
    found
}

/// Whole commands: lines that end with a backslash, or within quotes, go on in the next.
fn commands(lines: &[String]) -> Vec<String> {
    let (mut found, mut whole) = (Vec::new(), String::new());
    for line in lines {
        whole += line;
        let is_open = whole.matches('\'').count() % 2 == 1 || whole.ends_with('\\');
        if is_open {
            whole.push('\n');
            continue;
        }
        found.push(std::mem::take(&mut whole));
    }
    found.retain(|command| !command.trim().is_empty());
    found
}

/// Where the page's commands are run: what they name is there.
struct Place {
    dir: tempfile::TempDir,
    server: Server,
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
        let at = |name: &str| dir.path().join(name);
        for name in ["experiments", "docs", "data", "crates"] {
            symlink(root().join(name).canonicalize().unwrap(), at(name)).unwrap();
        }
        std::fs::create_dir(at("trails")).unwrap();
        let tracks = root().join("data/tracks");
        for file in std::fs::read_dir(tracks).unwrap().flatten() {
            if file.path().extension().is_some_and(|kind| kind == "gpx") {
                std::fs::copy(file.path(), at("trails").join(file.file_name())).unwrap();
            }
        }
        let markets = std::fs::read_dir(root().join("data/markets")).unwrap().flatten();
        let markets = markets.map(|file| file.path()).find(|path| path.extension().is_some());
        std::fs::copy(markets.unwrap(), at("markets.csv")).unwrap();
        let track = root().join("experiments/long-track");
        std::fs::copy(track.join("script.js"), at("script.js")).unwrap();
        std::fs::copy(track.join("experiment.toml"), at("my-experiment.toml")).unwrap();
        Place { dir, server: Setup::new().demo().start() }
    }

    /// With the addresses of the server in place of the page's.
    fn here(&self, text: &str) -> String {
        let mut parts = text.split("127.0.0.1:");
        let mut here = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
            // Port 0 is any port: a server that the page starts.
            if part[..part.len() - rest.len()] == *"0" {
                here += &format!("127.0.0.1:{part}");
                continue;
            }
            let is_metrics = rest.starts_with("/metrics");
            let address = if is_metrics { self.server.metrics } else { self.server.api };
            here += &format!("{address}{rest}");
        }
        here
    }

    /// Runs a block in one shell; what each command printed and how it ended stands in files.
    fn run(&self, commands: &[String]) {
        let mut script = String::new();
        for (at, command) in commands.iter().enumerate() {
            script += &format!(
                "{{ {}\n}} >out.{at} 2>err.{at}; echo $? >code.{at}\n",
                self.here(command)
            );
        }
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
}

/// What is wrong with a command's answer, if anything.
fn complaint(command: &str, code: &str, out: &str) -> Option<&'static str> {
    if code.trim() != "0" {
        Some("it failed")
    } else if out.contains("\"items\":[]") {
        Some("an empty list")
    } else if command.starts_with("curl ") && !command.contains(" -o ") && out.trim().is_empty() {
        Some("an empty answer")
    } else {
        None
    }
}

fn every_command_works(page: &str) {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let place = Place::new();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for lines in blocks(&text) {
        let mut commands = commands(&lines);
        commands.retain(|one| {
            let one = one.trim_start();
            !one.starts_with('#') && !NOT_RUN.iter().any(|what| one.starts_with(what))
        });
        place.run(&commands);
        for (at, command) in commands.iter().enumerate() {
            count += 1;
            let (code, out) = (place.file(&format!("code.{at}")), place.file(&format!("out.{at}")));
            if let Some(why) = complaint(command, &code, &out) {
                let said = place.file(&format!("err.{at}"));
                wrong.push(format!("{page}: {command}\n  {why}: {out}{said}"));
            }
        }
    }
    assert!(count >= 5, "{page}: only {count} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_command_of_the_english_page_works_and_shows_something() {
    every_command_works("README.md");
}

#[test]
fn every_command_of_the_korean_page_works_and_shows_something() {
    every_command_works("README.ko.md");
}

#[test]
fn what_a_command_must_not_answer() {
    assert_eq!(complaint("curl x", "0\n", "{\"items\":[]}"), Some("an empty list"));
    assert_eq!(complaint("curl x", "0\n", ""), Some("an empty answer"));
    assert_eq!(complaint("madang config", "2\n", "x"), Some("it failed"));
    assert_eq!(complaint("base=x", "0\n", ""), None);
    let page = "```sh\na 'b\nc'\nd \\\n e\n```\ntext\n```console\n$ f\ng\n```";
    let cut: Vec<_> = blocks(page).iter().map(|lines| commands(lines)).collect();
    assert_eq!(cut, [vec!["a 'b\nc'", "d \\\n e"], vec!["f"]]);
}
