//! Posts: cached listings and posts against nginx, pages deep in a large store, the cache under writes.

use crate::serving::{body, column};
use crate::stats::{median, ratios, spread};
use crate::tools::{Served, WrkRun, log_in, madang, supervisor, wrk, wrk_with};
use anyhow::{Context as _, ensure};
use madang_stack::nginx::{Nginx, StaticSite};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const ROUNDS: usize = 5;
const SECONDS: u32 = 2;
/// Of each of the many runs on deep pages: thousands of answers.
const DEEP_SECONDS: u32 = 1;
const USERS: u32 = 64;
/// Posts of the small store, and of the large one.
const SIZES: [u32; 2] = [10_000, 1_000_000];
/// Clients that page.
const CLIENTS: u32 = 8;
/// Writes a second beside the cached reads.
const WRITES: u32 = 100;

const ORDERS: [&str; 2] = ["newest", "price"];
/// A wide listing, one that merges most (the city has districts), and a narrow one.
const AREAS: [(&str, &str); 3] = [
    ("everywhere", ""),
    ("city with districts", "&state=Gyeonggi-do&city=Seongnam-si"),
    (
        "town, one category",
        "&state=Seoul&city=Songpa-gu&town=%EC%9E%A0%EC%8B%A4%EB%8F%99&category=digital",
    ),
];

/// Everything about posts. `BENCH_POSTS` makes the large store smaller, for a first look.
pub fn posts() -> anyhow::Result<String> {
    let large = std::env::var("BENCH_POSTS").ok().and_then(|n| n.parse().ok()).unwrap_or(SIZES[1]);
    let (small_dir, large_dir) = (TempDir::new()?, TempDir::new()?);
    fill(small_dir.path(), SIZES[0])?;
    let seconds = fill(large_dir.path(), large)?;
    let mut out = format!(
        "### Posts\n\n`madang seed --users {USERS} --posts {large} --shared-hash`: {seconds:.0} s.\n\n"
    );
    out += &cached(small_dir.path())?;
    out += &deep(small_dir.path(), large_dir.path(), large)?;
    out += &under_writes(small_dir.path())?;
    Ok(out)
}

/// Fills a store; answers in how many seconds.
fn fill(dir: &Path, posts: u32) -> anyhow::Result<f64> {
    let started = std::time::Instant::now();
    let seeded = Command::new(madang()?)
        .args(["seed", "--shared-hash", "--users", &USERS.to_string(), "--posts"])
        .arg(posts.to_string())
        .arg("--data")
        .arg(dir)
        .current_dir(dir)
        .output()?;
    ensure!(seeded.status.success(), "seed: {}", String::from_utf8_lossy(&seeded.stderr));
    Ok(started.elapsed().as_secs_f64())
}

/// A cached listing and a cached post against nginx with the same bytes.
fn cached(dir: &Path) -> anyhow::Result<String> {
    let served = Served::start(dir, &[])?;
    let mut out = format!(
        "A cached body against nginx with the same bytes from a file, `wrk -t1 -c64 -d{SECONDS}s`, {ROUNDS} rounds in turn. Median (range).\n\n| body | bytes | nginx, requests/s | madang, requests/s | **madang / nginx** | CPU, madang / nginx |\n|---|---|---|---|---|---|\n"
    );
    for (name, path) in [("listing of 20", "/v1/posts?state=Seoul"), ("post", "/v1/posts/1")] {
        let bytes = body(&format!("{}{path}", served.url))?;
        let (ours, theirs) = against_nginx(&served, path, &bytes)?;
        let rate = |run: &WrkRun| run.per_second;
        let cpu = |run: &WrkRun| run.cpu_us;
        writeln!(
            out,
            "| {name} | {} | {} | {} | **{}** | {} |",
            bytes.len(),
            spread(&column(&theirs, rate), 0),
            spread(&column(&ours, rate), 0),
            spread(&ratios(&column(&ours, rate), &column(&theirs, rate)), 2),
            spread(&ratios(&column(&ours, cpu), &column(&theirs, cpu)), 2),
        )?;
    }
    out.push('\n');
    Ok(out)
}

fn against_nginx(
    served: &Served,
    path: &str,
    bytes: &[u8],
) -> anyhow::Result<(Vec<WrkRun>, Vec<WrkRun>)> {
    let (config, site) = (TempDir::new()?, TempDir::new()?);
    std::fs::write(site.path().join("body.json"), bytes)?;
    let workers = std::thread::available_parallelism()?.get();
    let site = StaticSite { root: site.path().to_owned(), workers };
    let nginx = Nginx::static_site(&supervisor()?, config.path(), &site)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let n = wrk(&format!("{}/body.json", nginx.url()), 64, SECONDS, &[], &|| nginx.sample())?;
        let m =
            wrk(&format!("{}{path}", served.url), 64, SECONDS, &[], &|| served.process.sample())?;
        ensure!(n.errors + m.errors == 0.0, "errors: nginx {}, madang {}", n.errors, m.errors);
        // The first round warms both up.
        if round > 0 {
            theirs.push(n);
            ours.push(m);
        }
    }
    Ok((ours, theirs))
}

/// First and 1,000th page without a cache, in a small store and in a large one.
fn deep(small: &Path, large: &Path, size: u32) -> anyhow::Result<String> {
    let stores =
        [Served::start(small, &["cache.mode=off"])?, Served::start(large, &["cache.mode=off"])?];
    let mut out = format!(
        "Pages without a cache (`cache.mode=off`), {CLIENTS} clients, `wrk -t1 -c{CLIENTS} -d{DEEP_SECONDS}s`, three rounds in turn, medians in ms. Page 1,000 is asked for by its cursor; where a listing has fewer full pages, the last of them. A short page has less to read and to write, so it takes no part in the ratio.\n\n| listing | order | pages | p50 of {} | p99 | p50 of {size} | p99 | p99, ratio |\n|---|---|---|---|---|---|---|---|\n",
        SIZES[0]
    );
    let mut worst = (0.0_f64, 0.0_f64);
    for (name, area) in AREAS {
        for order in ORDERS {
            let first = format!("/v1/posts?sort={order}{area}");
            let pages = |number| -> anyhow::Result<Vec<PageAt>> {
                stores.iter().map(|s| page_at(&s.url, &first, number)).collect()
            };
            for pages in [pages(1)?, pages(1000)?] {
                let mut runs = [Vec::new(), Vec::new()];
                for _ in 0..3 {
                    for ((served, page), runs) in stores.iter().zip(&pages).zip(&mut runs) {
                        let url = format!("{}{}", served.url, page.path);
                        let run =
                            wrk(&url, CLIENTS, DEEP_SECONDS, &[], &|| served.process.sample())?;
                        ensure!(run.errors == 0.0, "{} errors at {}", run.errors, page.path);
                        runs.push(run);
                    }
                }
                let of = |at: usize, what: fn(&WrkRun) -> f64| median(&column(&runs[at], what));
                let (a, b) = (of(0, |r| r.p99_ms), of(1, |r| r.p99_ms));
                worst.0 = worst.0.max(b);
                if pages.iter().all(|page| page.full) {
                    worst.1 = worst.1.max(b / a);
                }
                writeln!(
                    out,
                    "| {name} | {order} | {}, {} | {:.2} | {a:.2} | {:.2} | {b:.2} | {:.2} |",
                    pages[0],
                    pages[1],
                    of(0, |r| r.p50_ms),
                    of(1, |r| r.p50_ms),
                    b / a
                )?;
            }
        }
    }
    writeln!(
        out,
        "\n**Largest p99 at {size}: {:.1} ms; largest ratio of full pages: {:.2}.**\n",
        worst.0, worst.1
    )?;
    Ok(out)
}

/// A page of a listing.
#[derive(Clone)]
struct PageAt {
    path: String,
    number: u32,
    /// Whether it is as long as pages are.
    full: bool,
}

impl std::fmt::Display for PageAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.number, if self.full { "" } else { " (short)" })
    }
}

/// The page of this number by following cursors, or the last full one before it; the first at least.
fn page_at(base: &str, first: &str, number: u32) -> anyhow::Result<PageAt> {
    let mut path = first.to_owned();
    let mut last = None;
    for at in 1..=number {
        let page: serde_json::Value = serde_json::from_slice(&body(&format!("{base}{path}"))?)?;
        let full = page["items"].as_array().is_some_and(|items| items.len() == 20);
        if full || last.is_none() {
            last = Some(PageAt { path, number: at, full });
        }
        match page["nextCursor"].as_str() {
            Some(cursor) => path = format!("{first}&cursor={cursor}"),
            None => break,
        }
    }
    last.context("a listing has a first page")
}

/// The share of look-ups that the cache answers while writes change what is read: readers on the seeded
/// curve, two posts and a listing in turn.
fn under_writes(dir: &Path) -> anyhow::Result<String> {
    let served = Served::start(dir, &[])?;
    let scripts = TempDir::new()?;
    let readers = scripts.path().join("read.lua");
    std::fs::write(&readers, reading())?;
    let tokens = (1..=USERS).map(|n| log_in(&served.url, n)).collect::<Result<Vec<_>, _>>()?;
    let writing = scripts.path().join("write.js");
    std::fs::write(&writing, write_script(&tokens))?;
    let sample = || served.process.sample();
    let read =
        |seconds| wrk_with(&served.url, 64, seconds, &["-s", &readers.to_string_lossy()], &sample);
    read(SECONDS)?;
    let before = Looks::of(&served)?;
    let quiet = read(5)?;
    let between = Looks::of(&served)?;
    let mut writers = Writers::start(&served.url, &writing)?;
    let busy = read(10)?;
    let after = Looks::of(&served)?;
    let made = writers.stop()?;
    Ok(format!(
        "Readers on the popularity curve of {} seeded posts (two posts and a listing in turn), `wrk -t1 -c64`, first alone, then beside {made} creates, changes and removals a second (asked for: {WRITES}):\n\n| | reads/s | p99, ms | hit ratio, posts | listings | **both** |\n|---|---|---|---|---|---|\n{}{}\n",
        SIZES[0],
        between.row("alone", &before, &quiet),
        after.row("with writes", &between, &busy),
    ))
}

/// Look-ups of a moment: hits and all, of posts and of listings.
struct Looks([(f64, f64); 2]);

impl Looks {
    fn of(served: &Served) -> anyhow::Result<Looks> {
        let of = |cache: &str| {
            let count = |name: &str| served.metric_of(name, &format!("cache=\"{cache}\""));
            let hits =
                count("madang_cache_hits_total")? + count("madang_cache_negative_hits_total")?;
            let others =
                count("madang_cache_misses_total")? + count("madang_cache_coalesced_total")?;
            anyhow::Ok((hits, hits + others))
        };
        Ok(Looks([of("posts")?, of("post_lists")?]))
    }

    fn row(&self, name: &str, before: &Looks, run: &WrkRun) -> String {
        let gone = |at: usize| (self.0[at].0 - before.0[at].0, self.0[at].1 - before.0[at].1);
        let (posts, lists) = (gone(0), gone(1));
        format!(
            "| {name} | {:.0} | {:.2} | {:.3} | {:.3} | **{:.3}** |\n",
            run.per_second,
            run.p99_ms,
            posts.0 / posts.1,
            lists.0 / lists.1,
            (posts.0 + lists.0) / (posts.1 + lists.1)
        )
    }
}

/// The generator of the project with a constant rate of writes, as a process.
struct Writers {
    child: std::process::Child,
    summary: PathBuf,
    _dir: TempDir,
}

impl Writers {
    fn start(url: &str, script: &Path) -> anyhow::Result<Writers> {
        let dir = TempDir::new()?;
        let summary = dir.path().join("summary.json");
        let child = Command::new(madang()?)
            .args(["load", "--quiet", "--summary-export"])
            .arg(&summary)
            .args(["--env", &format!("BASE_URL={url}")])
            .arg(script)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()?;
        Ok(Writers { child, summary, _dir: dir })
    }

    /// Waits for its end; answers how many writes a second it made.
    fn stop(&mut self) -> anyhow::Result<String> {
        let status = self.child.wait()?;
        ensure!(status.success(), "the writers failed: {status}");
        let text = std::fs::read_to_string(&self.summary)?;
        let summary: serde_json::Value = serde_json::from_str(&text)?;
        let rate = summary["metrics"]["writes"]["rate"].as_f64().context("the rate of writes")?;
        Ok(format!("{rate:.0}"))
    }
}

fn write_script(tokens: &[String]) -> String {
    let tokens = serde_json::json!(tokens);
    format!(
        "import http from 'k6/http';
import exec from 'k6/execution';
import {{ Counter }} from 'k6/metrics';
const writes = new Counter('writes');
const tokens = {tokens};
export const options = {{ scenarios: {{ w: {{ executor: 'constant-arrival-rate', rate: {}, timeUnit: '3s', duration: '11s', preAllocatedVUs: 32, maxVUs: 200 }} }} }};
export default function () {{
  const n = exec.scenario.iterationInTest;
  const headers = {{ 'Content-Type': 'application/json', Authorization: `Bearer ${{tokens[n % tokens.length]}}` }};
  const cities = [['서울', '송파구', '잠실동'], ['경기도', '화성시', '동탄동'], ['부산', '해운대구', '우동'], ['제주', '제주시', '연동']];
  const [state, city, town] = cities[n % cities.length];
  const categories = ['digital', 'clothing', 'kids', 'books'];
  const body = {{ title: '자전거', content: '좋아요', itemName: '자전거', price: 1000, stock: 1, category: categories[n % 3], state, city, town }};
  const made = http.post(`${{__ENV.BASE_URL}}/v1/posts`, JSON.stringify(body), {{ headers }});
  const path = `${{__ENV.BASE_URL}}/v1/posts/${{made.json('id')}}`;
  const changed = http.patch(path, JSON.stringify({{ price: 2000 }}), {{ headers }});
  const gone = http.del(path, null, {{ headers }});
  if (made.status === 201 && changed.status === 200 && gone.status === 204) writes.add(3);
}}
",
        WRITES
    )
}

/// Readers for wrk, in Lua: the ranks that `madang seed` documents, drawn approximately, by
/// inversion of the continuous law (rank 0 of 10,000 comes with 7.5 %, the weights give it 10.2 %).
/// Removed posts are passed over.
fn reading() -> String {
    let posts = SIZES[0];
    let areas: Vec<_> =
        AREAS.iter().map(|(_, area)| format!("\"{}\"", area.trim_start_matches('&'))).collect();
    format!(
        "local areas = {{ {} }}\n\
         local function rank(n)\n  return math.min(n - 1, math.floor(math.exp(math.random() * math.log(n + 1))) - 1)\nend\n\
         local function post()\n  while true do\n    local id = 1 + (rank({posts}) * 999999937) % {posts}\n    if id % 50 ~= 0 then return id end\n  end\nend\n\
         local n = 0\n\
         function request()\n  n = n + 1\n  if n % 3 == 0 then return wrk.format(\"GET\", \"/v1/posts?\" .. areas[1 + rank(#areas)]) end\n\
           return wrk.format(\"GET\", string.format(\"/v1/posts/%d\", post()))\nend\n",
        areas.join(", ")
    )
}
