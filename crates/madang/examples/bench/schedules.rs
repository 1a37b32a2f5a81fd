//! Schedules: what enforcing the limit costs a create.
#![allow(clippy::disallowed_types, reason = "times statements of the store on a file of its own")]

use crate::stats::{median, ratios, spread};
use crate::tools::{Served, WrkRun, log_in, madang, wrk_with};
use anyhow::ensure;
use rusqlite::{Connection, params};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use tempfile::TempDir;

const ROUNDS: usize = 5;
const SECONDS: u32 = 3;
/// Clients, and users: each request is by another user than the one before.
const CLIENTS: u32 = 64;

/// Creates over HTTP with `schedules.limit_check = counter` against `schedules.limit = off`.
pub fn limit() -> anyhow::Result<String> {
    let free = Subject::start("off")?;
    // So high that nobody reaches it: the check is made, and no request is cheap because it is refused.
    let limited = Subject::start("1000000")?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        // By turns first, so that neither always follows the other's syncs.
        let (a, b) = if round % 2 == 0 {
            let a = free.run()?;
            (a, limited.run()?)
        } else {
            let b = limited.run()?;
            (free.run()?, b)
        };
        ensure!(a.errors + b.errors == 0.0, "errors: off {}, counter {}", a.errors, b.errors);
        // The first round warms both up.
        if round > 0 {
            without.push(a);
            with.push(b);
        }
    }
    let rate = |runs: &[WrkRun]| runs.iter().map(|run| run.per_second).collect::<Vec<_>>();
    let mut out = format!(
        "### The limit on schedules\n\n`POST /v1/schedules`, `wrk -t1 -c{CLIENTS} -d{SECONDS}s`, {CLIENTS} users in turn, {ROUNDS} rounds in turn, every answer a 201. Median (range).\n\n| | creates/s | server CPU, µs a create | p99, ms |\n|---|---|---|---|\n"
    );
    let rows = [("`schedules.limit = off`", &without), ("`counter`, limit not reached", &with)];
    for (name, runs) in rows {
        let column = |of: fn(&WrkRun) -> f64| runs.iter().map(of).collect::<Vec<_>>();
        let cpu = spread(&column(|run| run.cpu_us), 0);
        let p99 = spread(&column(|run| run.p99_ms), 1);
        writeln!(out, "| {name} | {} | {cpu} | {p99} |", spread(&rate(runs), 0))?;
    }
    writeln!(out, "\n**counter / off: {}**.", spread(&ratios(&rate(&with), &rate(&without)), 2))?;
    out += &the_count_alone(free.dir.path())?;
    Ok(out)
}

/// A server, and a script for wrk that creates schedules of its users.
struct Subject {
    served: Served,
    script: PathBuf,
    dir: TempDir,
}

impl Subject {
    fn start(limit: &str) -> anyhow::Result<Subject> {
        let dir = TempDir::new()?;
        let data = dir.path().join("data");
        let seeded = Command::new(madang()?)
            .args(["seed", "--shared-hash", "--schedules-per-user", "30", "--users"])
            .arg(CLIENTS.to_string())
            .arg("--data")
            .arg(&data)
            .current_dir(dir.path())
            .output()?;
        ensure!(seeded.status.success(), "seed: {}", String::from_utf8_lossy(&seeded.stderr));
        let served = Served::start(&data, &[&format!("schedules.limit={limit}")])?;
        let tokens =
            (1..=CLIENTS).map(|n| log_in(&served.url, n)).collect::<Result<Vec<_>, _>>()?;
        let script = dir.path().join("create.lua");
        std::fs::write(&script, lua(&tokens))?;
        Ok(Subject { served, script, dir })
    }

    fn run(&self) -> anyhow::Result<WrkRun> {
        let url = format!("{}/v1/schedules", self.served.url);
        let script = self.script.to_string_lossy();
        wrk_with(&url, CLIENTS, SECONDS, &["-s", &script], &|| self.served.process.sample())
    }
}

/// Creates of schedules by these in turn.
pub fn lua(tokens: &[String]) -> String {
    let requests = tokens.iter().map(|token| {
        format!(
            "  wrk.format(\"POST\", \"/v1/schedules\", {{[\"Content-Type\"] = \"application/json\", [\"Authorization\"] = \"Bearer {token}\"}}, body),\n"
        )
    });
    // Formatted once, in `init`: before it is called wrk does not know the host.
    format!(
        "local body = '{{\"title\":\"bench\",\"locationId\":1,\"startAt\":\"2027-06-01T09:00:00+09:00\",\"endAt\":\"2027-06-01T10:00:00+09:00\"}}'\n\
         local requests, n\n\
         function init()\n  n = 0\n  requests = {{\n{}  }}\nend\n\
         function request()\n  n = n % #requests + 1\n  return requests[n]\nend\n",
        requests.collect::<String>()
    )
}

/// `off` keeps the count as well, so the ratio above does not show what it costs: here the statements
/// alone, on a copy of the store, 64 in a transaction.
fn the_count_alone(data: &Path) -> anyhow::Result<String> {
    const ROWS: i64 = 20_000;
    const INSERT: &str = "INSERT INTO schedules (user_id, location_id, title, start_at_ms, end_at_ms, created_at_ms) VALUES (?, 1, 'bench', ?, 4000000000000, 0)";
    const COUNT: &str = "UPDATE schedule_counts SET n = n + 1 WHERE user_id = ? AND n < 1000000000";
    let file = data.join("data").join(madang_service::store::FILE);
    let copy = TempDir::new()?;
    let to = copy.path().join("copy.db");
    Connection::open(&file)?.execute("VACUUM INTO ?", [to.to_string_lossy()])?;
    let conn = Connection::open(&to)?;
    conn.execute_batch("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON")?;
    let (mut bare, mut counted) = (Vec::new(), Vec::new());
    for round in 0..=2 * ROUNDS {
        let count = round % 2 == 1;
        let started = Instant::now();
        let (mut insert, mut up) = (conn.prepare_cached(INSERT)?, conn.prepare_cached(COUNT)?);
        for row in 0..ROWS {
            let user = row % i64::from(CLIENTS);
            if user == 0 {
                conn.execute_batch(if row == 0 { "BEGIN" } else { "COMMIT; BEGIN" })?;
            }
            if count {
                up.execute([user + 1])?;
            }
            insert.execute(params![user + 1, 1_800_000_000_000i64 + row])?;
        }
        conn.execute_batch("COMMIT")?;
        let micros = started.elapsed().as_secs_f64() * 1e6 / ROWS as f64;
        // The first round warms the file up.
        match (round, count) {
            (0, _) => {}
            (_, true) => counted.push(micros),
            (_, false) => bare.push(micros),
        }
    }
    Ok(format!(
        "The count itself, which `off` keeps too: the bare insert takes {} µs at the store, with the conditional update {} µs ({:.2} of the bare rate).\n\n",
        spread(&bare, 1),
        spread(&counted, 1),
        median(&ratios(&bare, &counted))
    ))
}
