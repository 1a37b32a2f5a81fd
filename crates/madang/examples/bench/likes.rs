//! Likes: what sharing commits gains, what storing costs, and articles by likes, deep in a large store.

use crate::serving::{body, column};
use crate::stats::{median, ratios, spread};
use crate::tools::{Served, WrkRun, log_in, madang, wrk, wrk_with};
use anyhow::{Context as _, ensure};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const ROUNDS: u32 = 5;
const SECONDS: u32 = 2;
const CLIENTS: u32 = 64;
const USERS: u32 = 64;
/// Ways of storing likes, in the order in which they take their turns.
const WAYS: [&str; 3] = ["direct", "behind", "discard"];
/// Articles that are liked; with the users more pairs than all rounds together take.
const ARTICLES: u32 = 50_000;
/// Articles of the small store, and of the large one, and likes of one article on average.
const SIZES: [u32; 2] = [10_000, 100_000];
const LIKES: u32 = 10;
/// Clients that page.
const READERS: u32 = 8;

/// Everything about likes.
pub fn likes() -> anyhow::Result<String> {
    Ok(format!("### Likes\n\n{}{}", ways()?, deep()?))
}

fn fill(dir: &Path, articles: u32, likes: u32) -> anyhow::Result<()> {
    let seeded = Command::new(madang()?)
        .args(["seed", "--shared-hash", "--users", &USERS.to_string(), "--articles"])
        .args([&articles.to_string(), "--likes", &likes.to_string()])
        .arg("--data")
        .arg(dir)
        .current_dir(dir)
        .output()?;
    ensure!(seeded.status.success(), "seed: {}", String::from_utf8_lossy(&seeded.stderr));
    Ok(())
}

/// Which pairs are liked one after another.
#[derive(Clone, Copy)]
pub enum Pairs {
    /// All clients like the same article, then the next one: what a batch can fold best.
    OneArticle,
    /// Each like is of another article, in no order: what it can fold least.
    Spread,
}

impl Pairs {
    /// Lua for the number of the user and of the article, both from 0, of like `n`. No pair comes twice:
    /// 200,000 is the least common multiple of both numbers, after which users move on by one.
    fn lua(self) -> String {
        match self {
            Pairs::OneArticle => {
                format!("n % {USERS}, math.floor(n / {USERS}) % {ARTICLES}")
            }
            Pairs::Spread => {
                format!("(n + math.floor(n / 200000)) % {USERS}, (n * 7919) % {ARTICLES}")
            }
        }
    }
}

/// 64 clients who like one pair after another that nobody has liked before.
fn ways() -> anyhow::Result<String> {
    let mut out = format!(
        "{CLIENTS} clients, `PUT` of pairs of {USERS} users and {ARTICLES} articles that were not liked before, `wrk -t1 -c{CLIENTS} -d{SECONDS}s`, {ROUNDS} rounds in turn. Median (range). `discard` is the same route without storing.\n\n| pairs | likes.write | likes/s | CPU, µs a like | p99, ms | likes a commit | **ratio to direct** | **ratio to discard** |\n|---|---|---|---|---|---|---|---|\n"
    );
    for (pairs, name) in [(Pairs::OneArticle, "one article at a time"), (Pairs::Spread, "spread")] {
        out += &ways_of(pairs, name)?;
    }
    out.push('\n');
    Ok(out)
}

fn ways_of(pairs: Pairs, name: &str) -> anyhow::Result<String> {
    let dirs = [TempDir::new()?, TempDir::new()?, TempDir::new()?];
    let mut runs = [Vec::new(), Vec::new(), Vec::new()];
    let mut likes_a_commit = [Vec::new(), Vec::new(), Vec::new()];
    for dir in &dirs {
        fill(dir.path(), ARTICLES, 0)?;
    }
    for round in 0..=ROUNDS {
        for (at, (way, dir)) in WAYS.iter().zip(&dirs).enumerate() {
            let setting = format!("likes.write={way}");
            let served = Served::start(dir.path(), &["unsafe_experiments=true", &setting])?;
            let run = like(&served, pairs, round * (USERS * ARTICLES / (ROUNDS + 1)))?;
            ensure!(run.errors == 0.0, "{way}: {} errors", run.errors);
            let commits = served.metric("madang_store_commits_total")?;
            let changed = served.metric("madang_likes_changed_total")?;
            // The first round warms up.
            if round > 0 {
                runs[at].push(run);
                likes_a_commit[at].push(changed / commits.max(1.0));
            }
        }
    }
    let rate = |at: usize| column(&runs[at], |run: &WrkRun| run.per_second);
    let mut out = String::new();
    for (at, way) in WAYS.iter().enumerate() {
        writeln!(
            out,
            "| {name} | {way} | {} | {:.1} | {:.2} | {:.0} | **{}** | **{}** |",
            spread(&rate(at), 0),
            median(&column(&runs[at], |run| run.cpu_us)),
            median(&column(&runs[at], |run| run.p99_ms)),
            median(&likes_a_commit[at]),
            spread(&ratios(&rate(at), &rate(0)), 1),
            spread(&ratios(&rate(at), &rate(2)), 2),
        )?;
    }
    Ok(out)
}

/// One run, from this like on.
pub fn like(served: &Served, pairs: Pairs, first: u32) -> anyhow::Result<WrkRun> {
    let tokens = (1..=USERS).map(|n| log_in(&served.url, n)).collect::<Result<Vec<_>, _>>()?;
    let quoted: Vec<_> = tokens.iter().map(|token| format!("\"Bearer {token}\"")).collect();
    let script = format!(
        "local tokens = {{ {} }}\nlocal n = {first} - 1\nlocal headers = {{}}\n\
         function request()\n  n = n + 1\n  local user, article = {}\n\
           headers[\"Authorization\"] = tokens[1 + user]\n\
           return wrk.format(\"PUT\", \"/v1/articles/\" .. string.format(\"%d\", 1 + article) .. \"/like\", headers)\nend\n",
        quoted.join(", "),
        pairs.lua(),
    );
    let dir = TempDir::new()?;
    let file = dir.path().join("like.lua");
    std::fs::write(&file, script)?;
    let args = ["-s", file.to_str().context("a path of text")?];
    wrk_with(&served.url, CLIENTS, SECONDS, &args, &|| served.process.sample())
}

/// First and 1,000th page by likes without a cache, in a small store and in a large one.
fn deep() -> anyhow::Result<String> {
    let dirs = [TempDir::new()?, TempDir::new()?];
    let mut stores = Vec::new();
    for (dir, size) in dirs.iter().zip(SIZES) {
        fill(dir.path(), size, size * LIKES)?;
        stores.push(Served::start(dir.path(), &["cache.mode=off"])?);
    }
    let mut out = format!(
        "Articles by likes without a cache (`cache.mode=off`), pages of 10, {READERS} clients, `wrk -t1 -c{READERS} -d2s`, three rounds in turn, medians in ms.\n\n| page | p50 of {} | p99 | p50 of {} | p99 | **p99, ratio** |\n|---|---|---|---|---|---|\n",
        SIZES[0], SIZES[1]
    );
    for number in [1, 1000] {
        let mut runs = [Vec::new(), Vec::new()];
        let paths = stores.iter().map(|s| page(&s.url, number)).collect::<Result<Vec<_>, _>>()?;
        for _ in 0..3 {
            for ((served, path), runs) in stores.iter().zip(&paths).zip(&mut runs) {
                let url = format!("{}{path}", served.url);
                runs.push(wrk(&url, READERS, 2, &[], &|| served.process.sample())?);
            }
        }
        let of = |at: usize, what: fn(&WrkRun) -> f64| median(&column(&runs[at], what));
        let (small, large) = (of(0, |run| run.p99_ms), of(1, |run| run.p99_ms));
        writeln!(
            out,
            "| {number} | {:.2} | {small:.2} | {:.2} | {large:.2} | **{:.2}** |",
            of(0, |run| run.p50_ms),
            of(1, |run| run.p50_ms),
            large / small
        )?;
    }
    out.push('\n');
    Ok(out)
}

/// The path of the page of this number, found by following cursors.
fn page(base: &str, number: u32) -> anyhow::Result<String> {
    let first = "/v1/articles?sort=likes&limit=10";
    let mut path = first.to_owned();
    for _ in 1..number {
        let page: serde_json::Value = serde_json::from_slice(&body(&format!("{base}{path}"))?)?;
        let cursor = page["nextCursor"].as_str().context("there are not so many pages")?;
        path = format!("{first}&cursor={cursor}");
    }
    Ok(path)
}
