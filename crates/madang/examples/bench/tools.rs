//! The processes a benchmark runs, and what they report.

use anyhow::{Context as _, anyhow, ensure};
use madang_stack::{CpuBudget, Output, Process, Sample, Spec, Supervisor};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// The binary beside this example, of the same profile.
pub fn madang() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let path = own.parent().and_then(Path::parent).map(|dir| dir.join("madang"));
    let path = path.filter(|p| p.is_file());
    path.ok_or_else(|| {
        anyhow!("no madang binary beside this example: cargo build --profile dist -p madang --bins")
    })
}

pub fn supervisor() -> anyhow::Result<Supervisor> {
    Ok(Supervisor::new(madang()?, ["supervise"]))
}

/// A server of ours with demo data on a free port.
pub struct Served {
    pub process: Process,
    pub url: String,
    pub metrics: String,
    _dir: Option<TempDir>,
}

impl Served {
    /// In a fresh directory, filled with the bundled samples.
    pub fn demo(settings: &[&str]) -> anyhow::Result<Served> {
        let dir = TempDir::new()?;
        let mut served = Self::start(dir.path(), settings)?;
        served._dir = Some(dir);
        Ok(served)
    }

    /// The same of another build.
    pub fn demo_of(program: &Path) -> anyhow::Result<Served> {
        let dir = TempDir::new()?;
        let mut served = Self::start_of(program, dir.path(), &[])?;
        served._dir = Some(dir);
        Ok(served)
    }

    /// In this directory.
    pub fn start(dir: &Path, settings: &[&str]) -> anyhow::Result<Served> {
        Self::start_of(&madang()?, dir, settings)
    }

    /// With so much of the processors.
    pub fn within(budget: &CpuBudget, dir: &Path, settings: &[&str]) -> anyhow::Result<Served> {
        Self::spawn(Spec::new(madang()?).budget(*budget), dir, settings)
    }

    fn start_of(program: &Path, dir: &Path, settings: &[&str]) -> anyhow::Result<Served> {
        Self::spawn(Spec::new(program), dir, settings)
    }

    fn spawn(spec: Spec, dir: &Path, settings: &[&str]) -> anyhow::Result<Served> {
        let mut spec = spec
            .args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data"])
            .arg(dir)
            .dir(dir)
            .stderr(Output::Capture);
        for setting in settings {
            spec = spec.args(["--set", setting]);
        }
        let process = supervisor()?.spawn(&spec)?;
        let limit = Duration::from_secs(30);
        let url = process.ready_line("listening ", limit)?.trim().to_owned();
        let metrics = process.ready_line("metrics ", limit)?.trim().to_owned();
        Ok(Served { process, url, metrics, _dir: None })
    }

    /// One figure of its metrics page.
    pub fn metric(&self, name: &str) -> anyhow::Result<f64> {
        self.metric_of(name, "")
    }

    /// The figure with this label.
    pub fn metric_of(&self, name: &str, label: &str) -> anyhow::Result<f64> {
        let url = madang_stack::http::Url::parse(&format!("{}/metrics", self.metrics))
            .map_err(|e| anyhow!(e))?;
        let page = madang_stack::http::get(&url, Duration::from_secs(5))?;
        let text = String::from_utf8_lossy(&page.body).into_owned();
        let line = text.lines().find(|l| {
            let rest = l.strip_prefix(name).filter(|rest| rest.starts_with([' ', '{']));
            rest.is_some_and(|rest| rest.contains(label))
        });
        line.and_then(|l| l.rsplit(' ').next()?.parse().ok())
            .ok_or_else(|| anyhow!("no {name} in the metrics"))
    }
}

/// What one run of wrk says, with the server's CPU beside it.
#[derive(Clone, Copy, Debug)]
pub struct WrkRun {
    pub per_second: f64,
    pub cpu_us: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub errors: f64,
}

/// Runs wrk and watches a process tree meanwhile.
pub fn wrk(
    url: &str,
    connections: u32,
    seconds: u32,
    headers: &[&str],
    sample: &dyn Fn() -> std::io::Result<Sample>,
) -> anyhow::Result<WrkRun> {
    let args: Vec<_> = headers.iter().flat_map(|header| ["-H", header]).collect();
    wrk_with(url, connections, seconds, &args, sample)
}

/// The same with any further arguments of wrk.
pub fn wrk_with(
    url: &str,
    connections: u32,
    seconds: u32,
    args: &[&str],
    sample: &dyn Fn() -> std::io::Result<Sample>,
) -> anyhow::Result<WrkRun> {
    let mut command = Command::new("wrk");
    command.args(["-t1", "--latency", &format!("-c{connections}"), &format!("-d{seconds}s")]);
    command.args(args);
    let before = sample()?;
    let output = command.arg(url).output().context("wrk: apt-get install wrk")?;
    let after = sample()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "wrk failed: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let number = |line: &str, word: usize| -> Option<f64> {
        line.split_whitespace().nth(word)?.trim_end_matches([',', '%']).parse().ok()
    };
    let find = |start: &str, word: usize| {
        text.lines().map(str::trim).find(|l| l.starts_with(start)).and_then(|l| number(l, word))
    };
    let requests = text
        .lines()
        .find(|l| l.contains(" requests in "))
        .and_then(|l| number(l, 0))
        .context("wrk's total")?;
    let refused = find("Non-2xx or 3xx responses:", 4).unwrap_or(0.0);
    let socket: f64 = text
        .lines()
        .find(|l| l.trim().starts_with("Socket errors:"))
        .map_or(0.0, |l| [3, 5, 7, 9].iter().filter_map(|word| number(l, *word)).sum());
    Ok(WrkRun {
        per_second: find("Requests/sec:", 1).context("wrk's rate")?,
        cpu_us: (after.cpu.saturating_sub(before.cpu)).as_secs_f64() * 1e6 / requests,
        p50_ms: quantile(&text, "50%"),
        p99_ms: quantile(&text, "99%"),
        errors: refused + socket,
    })
}

/// A line of wrk's distribution of latency, in milliseconds.
fn quantile(text: &str, name: &str) -> f64 {
    let line = text.lines().map(str::trim).find(|line| line.starts_with(name));
    line.and_then(|line| milliseconds(line.split_whitespace().nth(1)?)).unwrap_or(0.0)
}

fn milliseconds(text: &str) -> Option<f64> {
    let split = text.find(|c: char| c.is_alphabetic())?;
    let value: f64 = text[..split].parse().ok()?;
    match &text[split..] {
        "us" => Some(value / 1000.0),
        "ms" => Some(value),
        "s" => Some(value * 1000.0),
        _ => None,
    }
}

/// First line of a program's version, or that it is missing.
pub fn version(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let text = output.map(|o| [o.stdout, o.stderr].concat()).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines()
        .next()
        .filter(|l| !l.is_empty())
        .map_or_else(|| format!("{program} not found"), |l| l.trim().to_owned())
}

/// When, on what and of what: date, commit and machine as `scripts/about` says them, and versions.
pub fn heading() -> anyhow::Result<String> {
    let about = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/about");
    let about = Command::new(about).output().context("scripts/about")?;
    ensure!(about.status.success(), "scripts/about: {}", String::from_utf8_lossy(&about.stderr));
    Ok(format!(
        "{} (load average before: {:.1}); {}; {}; {}; {}.",
        String::from_utf8_lossy(&about.stdout).trim(),
        madang_stack::machine::load_average()?,
        version(&madang()?.to_string_lossy(), &["--version"]),
        version("/usr/sbin/nginx", &["-v"]),
        version("wrk", &["-v"]).split(" Copyright").next().unwrap_or("wrk").trim(),
        version(&k6(), &["version"]),
    ))
}

/// Real k6, where Go puts it or on the PATH.
pub fn k6() -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    let installed = format!("{home}/go/bin/k6");
    if Path::new(&installed).is_file() { installed } else { "k6".to_owned() }
}

/// The token of a seeded user.
pub fn log_in(url: &str, number: u32) -> anyhow::Result<String> {
    let address = url.strip_prefix("http://").context("an http address")?;
    let body = format!("{{\"nickname\":\"user-{number:04}\",\"password\":\"madang-seed\"}}");
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "POST /v1/auth/user/login HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let json = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let body: serde_json::Value = serde_json::from_str(json).context("the answer to a log-in")?;
    Ok(body["token"].as_str().with_context(|| format!("no token: {json}"))?.to_owned())
}
