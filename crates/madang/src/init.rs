//! `madang init`: writes an experiment file from the contents of a directory.

use crate::settings::usage;
use madang_stack::container::{CONTAINER_FILES, Engine};
use madang_stack::http::{self, Url};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `madang init`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Detects a k6 script, the start command of the service (Cargo.toml, package.json, go.mod,
manage.py, Dockerfile …) and running servers on this machine, and writes a commented experiment
file. Without a script, it also writes a template. Existing files are never overwritten.

Examples:
  madang init                     writes compare.toml for the current directory
  madang init service --out bench/compare.toml
  madang compare compare.toml     after checking the lines marked `<-`")]
pub(crate) struct Args {
    /// The service's directory
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// The file to write [default: DIR/compare.toml]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Marker file of a kind of service, and its start command; `{port}` is replaced by a free port.
const STARTS: [(&str, &[&str]); 7] = [
    ("Cargo.toml", &["cargo", "run", "--release", "--quiet", "--", "--port", "{port}"]),
    ("go.mod", &["go", "run", ".", "--port", "{port}"]),
    ("manage.py", &["python3", "manage.py", "runserver", "--noreload", "{port}"]),
    ("package.json", &["sh", "-c", "PORT={port} exec npm start"]),
    ("gradlew", &["./gradlew", "bootRun", "--args=--server.port={port}"]),
    ("mvnw", &["./mvnw", "spring-boot:run", "-Dspring-boot.run.arguments=--server.port={port}"]),
    ("server.py", &["python3", "server.py", "{port}"]),
];
/// Directories searched for scripts.
const PLACES: [&str; 7] = ["", "bench", "load", "k6", "perf", "test", "tests"];
/// Time limit for the response of a running server.
const LOOK: Duration = Duration::from_millis(300);
/// Largest number of ports probed.
const MOST_PORTS: usize = 30;

const SCRIPT: &str = "\
import http from 'k6/http';
import { check } from 'k6';

export const options = { vus: 10, duration: '5s' };

export default function () {
  const res = http.get(`${__ENV.BASE_URL}/`); // <- the request to measure
  // Test something that only a correct answer contains.
  check(res, { 'status is 200': (r) => r.status === 200 });
}
";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let out = args.out.clone().unwrap_or_else(|| args.dir.join("compare.toml"));
    if !args.dir.is_dir() {
        return Err(usage(format!("`{}` is no directory", args.dir.display())));
    }
    if out.exists() {
        return Err(usage(format!("`{}` is there already", out.display())));
    }
    let beside = crate::backup::parent(&out);
    fs::create_dir_all(beside)?;
    let found = script(&args.dir);
    let script = match &found {
        Some(script) => std::path::absolute(script)?,
        None => {
            let new = beside.join("load.js");
            if !new.exists() {
                fs::write(&new, SCRIPT)?;
                println!("wrote {}: a script template", new.display());
            }
            std::path::absolute(new)?
        }
    };
    let script = relative(&script, &std::path::absolute(beside)?);
    let here = std::path::absolute(&args.dir)?;
    let dir = relative(&here, &std::path::absolute(beside)?);
    fs::write(&out, text(&args.dir, &dir, &script, &servers()))?;
    println!("wrote {}: check the lines marked `<-`, then run", out.display());
    println!("  madang compare {}", out.display());
    Ok(())
}

/// First file that imports `k6/http`.
fn script(dir: &Path) -> Option<PathBuf> {
    let scripts = PLACES.iter().flat_map(|place| {
        let entries = fs::read_dir(dir.join(place)).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.sort();
        files
    });
    let is_script = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "js")
            && fs::read_to_string(path).is_ok_and(|text| text.contains("k6/http"))
    };
    scripts.into_iter().find(is_script)
}

/// Path relative to a directory; both are absolute.
fn relative(path: &Path, from: &Path) -> PathBuf {
    let clean = |path: &Path| -> Vec<_> {
        path.components()
            .filter(|one| *one != std::path::Component::CurDir)
            .map(|one| one.as_os_str().to_owned())
            .collect()
    };
    let (path, from) = (clean(path), clean(from));
    let same = path.iter().zip(&from).take_while(|(one, other)| one == other).count();
    let up = std::iter::repeat_n("..".into(), from.len() - same);
    let relative: PathBuf = up.chain(path[same..].iter().cloned()).collect();
    if relative.as_os_str().is_empty() { PathBuf::from(".") } else { relative }
}

/// Ports of this machine at which a server speaks HTTP.
fn servers() -> Vec<u16> {
    let ports = madang_stack::all_listening_ports().into_iter().filter(|port| *port >= 1024);
    let answers = |port: &u16| {
        let url = Url::parse(&format!("http://127.0.0.1:{port}/"));
        url.is_ok_and(|url| http::get(&url, LOOK).is_ok())
    };
    ports.take(MOST_PORTS).filter(answers).collect()
}

/// Text of the file. Commands start in its directory, so they change to the service's first.
fn text(dir: &Path, from_file: &Path, script: &Path, servers: &[u16]) -> String {
    let start = STARTS.iter().find(|(file, _)| dir.join(file).exists());
    let mut text = String::from(
        "# Is `new` better or worse than `old`? Defaults: ten pairs, 2 s of warm-up, CPU per request.\n\
         # Reference: experiments/REFERENCE.md of Madang.\n\n[load]\n",
    );
    let script = script.display().to_string();
    // Writing into a string cannot fail.
    let _ = writeln!(text, "script = {script:?}   # reads the address from __ENV.BASE_URL\n");
    let is_here = from_file == Path::new(".");
    let container = if Engine::compose_file(dir).is_some() {
        Some(("compose", "it has to publish the server at ${PORT}"))
    } else {
        let has = CONTAINER_FILES.iter().any(|file| dir.join(file).is_file());
        has.then_some(("build", "from its Dockerfile; `image = \"NAME\"` runs an existing image"))
    };
    let command = |words: &[&str]| {
        if is_here {
            return format!("{words:?}");
        }
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let line = format!("cd '{}' && exec {}", from_file.display(), quoted.join(" "));
        format!("{:?}", ["sh", "-c", &line])
    };
    let (why, words) = match start {
        Some((file, words)) => (format!("from {file}"), *words),
        None => ("start command".to_owned(), &["./server", "--port", "{port}"][..]),
    };
    for (name, what) in [("old", "the reference"), ("new", "the variant to be judged")] {
        let _ = writeln!(text, "[variants.{name}]                       # {what}");
        let _ = match container {
            Some((key, why)) => {
                writeln!(text, "{key} = {:?}   # <- {why}", from_file.display().to_string())
            }
            None => writeln!(
                text,
                "command = {}   # <- {why}; {{port}} is replaced by a free port",
                command(words)
            ),
        };
        for port in servers {
            let _ = writeln!(
                text,
                "# url = \"http://127.0.0.1:{port}\"   # a running server, instead of `command`"
            );
        }
        text.push('\n');
    }
    text.push_str(
        "# Expectation, written before the first round:\n# [[prediction]]\n# metric = \"cpu_per_good_request\"\n\
         # variant = \"new\"\n# ratio_at_most = 0.9\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_seen_from_a_directory() {
        let path_from = |path: &str, from: &str| relative(Path::new(path), Path::new(from));
        assert_eq!(path_from("/a/b/load.js", "/a/b"), Path::new("load.js"));
        assert_eq!(path_from("/a/load.js", "/a/b/c"), Path::new("../../load.js"));
        assert_eq!(path_from("/a/b", "/a/b"), Path::new("."));
        assert_eq!(path_from("/a/./b", "/a/b"), Path::new("."));
    }
}
