//! Several nodes on one MariaDB: what nginx, the cluster and its delay cost, and what storing there yields.

use crate::likes::{Pairs, like};
use crate::schedules::lua;
use crate::serving::{TRACK, body, column};
use crate::stats::{median, ratios, spread};
use crate::tools::{Served, WrkRun, log_in, madang, supervisor, wrk, wrk_with};
use anyhow::{Context as _, ensure};
use madang_stack::mariadb::{MariaDb, MariaDbSettings};
use madang_stack::nginx::{Balancer, Nginx, Profile, StaticSite};
use madang_stack::redis::Redis;
use madang_stack::{CpuBudget, Sample};
use mysql::prelude::Queryable as _;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const ROUNDS: usize = 5;
const SECONDS: u32 = 3;
const CLIENTS: u32 = 64;
/// Creates of schedules a second in the fastest of the ways that were documented; as many were asked for.
const DOCUMENTED_CREATES: f64 = 399.0;
/// The default of the server itself; tests make do with less.
const BUFFER_POOL_MIB: u32 = 128;
/// Clients that change posts: few, so that what is measured is not a queue.
const WRITERS: u32 = 8;
/// A key that all nodes sign tokens with.
const KEY: &str =
    "accounts.token_key=5f1c7a0e9d3b48266a17c4f0b2e85d9135a8d06c7e94f2b1038dc56e7fa94b21";

/// Everything about several nodes.
pub fn cluster() -> anyhow::Result<String> {
    let dir = TempDir::new()?;
    let settings = MariaDbSettings { buffer_pool_mib: BUFFER_POOL_MIB, ..Default::default() };
    let server = MariaDb::with(&supervisor()?, dir.path(), &settings)?;
    let mut out = String::from("### Several nodes\n\n");
    out += &reads(&server)?;
    out += &polls(&server)?;
    out += &delay(&server)?;
    out += &schedules(&server)?;
    out += &two_small_nodes(&server)?;
    Ok(out)
}

/// A new database.
fn database(server: &MariaDb, name: &str) -> anyhow::Result<String> {
    let url = server.url();
    mysql::Conn::new(url.as_str())?.query_drop(format!("CREATE DATABASE `{name}`"))?;
    let (base, _) = url.rsplit_once('/').context("a URL with a database")?;
    Ok(format!("{base}/{name}"))
}

/// A node; what it says of its data is in a directory of its own.
fn node(url: &str, more: &[&str]) -> anyhow::Result<(Served, TempDir)> {
    let dir = TempDir::new()?;
    let url = format!("database.url={url}");
    let settings = [&[url.as_str(), KEY, "server.trusted_proxies=127.0.0.1/32"], more].concat();
    Ok((Served::start(dir.path(), &settings)?, dir))
}

fn address(url: &str) -> anyhow::Result<SocketAddr> {
    Ok(url.trim_start_matches("http://").parse()?)
}

fn balancer(dir: &Path, nodes: Vec<SocketAddr>) -> anyhow::Result<Nginx> {
    let balancer = Balancer { nodes, profile: Profile::Tuned, workers: None, certificate: None };
    Ok(Nginx::balancer(&supervisor()?, dir, &balancer)?)
}

fn rate(run: &WrkRun) -> f64 {
    run.per_second
}

fn cpu(run: &WrkRun) -> f64 {
    run.cpu_us
}

/// Cached reads through nginx, and what they cost a node of a cluster.
fn reads(server: &MariaDb) -> anyhow::Result<String> {
    let url = database(server, "reads")?;
    let nodes = [node(&url, &[])?, node(&url, &[])?];
    let embedded = Served::demo(&[])?;
    let bytes = body(&format!("{}{TRACK}", embedded.url))?;
    let dirs = [TempDir::new()?, TempDir::new()?, TempDir::new()?, TempDir::new()?];
    let [site, fixed_dir, front_dir, other_dir] = &dirs;
    std::fs::create_dir_all(site.path().join("v1/tracks"))?;
    std::fs::write(site.path().join(TRACK.trim_start_matches('/')), &bytes)?;
    let workers = std::thread::available_parallelism()?.get();
    let site = StaticSite { root: site.path().to_owned(), workers };
    let fixed = Nginx::static_site(&supervisor()?, fixed_dir.path(), &site)?;
    let at = nodes.iter().map(|(node, _)| address(&node.url)).collect::<Result<Vec<_>, _>>()?;
    let front = balancer(front_dir.path(), at)?;
    let front_of_fixed = balancer(other_dir.path(), vec![address(&fixed.url())?])?;
    let (mut ours, mut theirs, mut of_node, mut alone) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let run = |url: &str, sample: &dyn Fn() -> std::io::Result<Sample>| {
            wrk(&format!("{url}{TRACK}"), CLIENTS, SECONDS, &[], sample)
        };
        let (a, b) = (
            run(&front.url(), &|| front.sample())?,
            run(&front_of_fixed.url(), &|| front_of_fixed.sample())?,
        );
        let one = run(&nodes[0].0.url, &|| nodes[0].0.process.sample())?;
        let own = run(&embedded.url, &|| embedded.process.sample())?;
        ensure!(a.errors + b.errors + one.errors + own.errors == 0.0, "errors");
        // The first round warms everything up.
        if round > 0 {
            ours.push(a);
            theirs.push(b);
            of_node.push(one);
            alone.push(own);
        }
    }
    let waits: f64 = nodes
        .iter()
        .map(|(node, _)| node.metric("madang_cluster_waits_total"))
        .sum::<Result<f64, _>>()?;
    let all: f64 = ours.iter().chain(&of_node).map(|run| run.per_second * f64::from(SECONDS)).sum();
    let mut out = format!(
        "The cached track, {} bytes, `wrk -t1 -c{CLIENTS} -d{SECONDS}s`, {ROUNDS} rounds in turn. Median (range).\n\n| | requests/s | CPU of the node, µs a request |\n|---|---|---|\n",
        bytes.len()
    );
    writeln!(out, "| nginx and two nodes | {} | |", spread(&column(&ours, rate), 0))?;
    writeln!(
        out,
        "| nginx and an nginx with the same bytes in a file | {} | |",
        spread(&column(&theirs, rate), 0)
    )?;
    writeln!(
        out,
        "| one of the nodes | {} | {} |",
        spread(&column(&of_node, rate), 0),
        spread(&column(&of_node, cpu), 2)
    )?;
    writeln!(
        out,
        "| a node with a file of its own | {} | {} |",
        spread(&column(&alone, rate), 0),
        spread(&column(&alone, cpu), 2)
    )?;
    writeln!(
        out,
        "\n**Behind nginx, two nodes / fixed answer: {}. CPU of a cached read, node of a cluster / node with a file: {}.** Reads that found their node not fresh, of {all:.0} at full load: {:.3} %.\n",
        spread(&ratios(&column(&ours, rate), &column(&theirs, rate)), 2),
        spread(&ratios(&column(&of_node, cpu), &column(&alone, cpu)), 2),
        100.0 * waits / all
    )?;
    Ok(out)
}

/// What the poller takes of a core, in per cent: its thread's own time.
fn polls(server: &MariaDb) -> anyhow::Result<String> {
    let (node, _dir) = node(&database(server, "polls")?, &[])?;
    let pid = node.process.pid();
    let share = |work: &mut dyn FnMut() -> anyhow::Result<()>| {
        let (began, before) = (std::time::Instant::now(), thread_time(pid, "store-poll")?);
        work()?;
        let time = thread_time(pid, "store-poll")? - before;
        anyhow::Ok(100.0 * time / began.elapsed().as_secs_f64())
    };
    let mut sleep = || {
        std::thread::sleep(Duration::from_secs(10));
        Ok(())
    };
    // Polls slow down a second after the last request.
    std::thread::sleep(Duration::from_secs(2));
    let idle = share(&mut sleep)?;
    let serving = share(&mut || {
        wrk(&format!("{}{TRACK}", node.url), CLIENTS, 5, &[], &|| node.process.sample()).map(drop)
    })?;
    Ok(format!(
        "Polling takes {idle:.2} % of a core on an idle node, {serving:.2} % on one under full load.\n\n"
    ))
}

/// Processor time of the threads of this name, in seconds.
fn thread_time(pid: u32, name: &str) -> anyhow::Result<f64> {
    let mut ticks = 0.0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let stat = std::fs::read_to_string(task?.path().join("stat"))?;
        let (head, rest) = stat.rsplit_once(')').context("a name in parentheses")?;
        if head.ends_with(name) {
            // User and system time, fields 14 and 15 (proc_pid_stat(5)), of which the third is the first here.
            let fields: Vec<&str> = rest.split_whitespace().collect();
            ticks += fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
        }
    }
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
}

/// Changes of posts, which end cached bodies, with the delay and without.
fn delay(server: &MariaDb) -> anyhow::Result<String> {
    let mut subjects = Vec::new();
    for (name, setting) in [("delayed", "cluster.delay=25ms"), ("hasty", "cluster.delay=0")] {
        let (node, dir) = node(&database(server, name)?, &[setting])?;
        let script = dir.path().join("change.lua");
        std::fs::write(&script, changes(&node)?)?;
        subjects.push((node, dir, script, Vec::new()));
    }
    for round in 0..=ROUNDS {
        for (node, _, script, runs) in &mut subjects {
            let args = ["-s", script.to_str().context("a path of text")?];
            let run = wrk_with(&node.url, WRITERS, SECONDS, &args, &|| node.process.sample())?;
            ensure!(run.errors == 0.0, "errors: {}", run.errors);
            if round > 0 {
                runs.push(run);
            }
        }
    }
    let p50 = |at: usize| column(&subjects[at].3, |run| run.p50_ms);
    Ok(format!(
        "`PATCH` of posts by {WRITERS} clients: p50 {} ms with `cluster.delay = 25ms`, {} ms with 0: **delay + {:.1} ×** the latter.\n\n",
        spread(&p50(0), 1),
        spread(&p50(1), 1),
        (median(&p50(0)) - 25.0) / median(&p50(1))
    ))
}

/// Lua that changes posts of somebody, made here.
fn changes(node: &Served) -> anyhow::Result<String> {
    let send = |path: &str, token: &str, body: &str| -> anyhow::Result<serde_json::Value> {
        let answer = Command::new("curl")
            .args(["-sS", "-H", "Content-Type: application/json", "-H"])
            .arg(format!("Authorization: Bearer {token}"))
            .args(["-d", body, &format!("{}{path}", node.url)])
            .output()?;
        serde_json::from_slice(&answer.stdout).context("an answer")
    };
    let person = r#"{"nickname":"bench","password":"right-horse-battery","region_name":"Seoul"}"#;
    send("/v1/auth/user/register", "", person)?;
    let token =
        send("/v1/auth/user/login", "", person)?["token"].as_str().context("a token")?.to_owned();
    let post = r#"{"title":"t","content":"c","itemName":"i","price":1,"stock":1,"category":"books","state":"서울특별시","city":"마포구","town":"망원동"}"#;
    let mut ids = Vec::new();
    for _ in 0..WRITERS {
        ids.push(send("/v1/posts", &token, post)?["id"].to_string());
    }
    Ok(format!(
        "local ids = {{ {} }}\nlocal n = 0\nlocal headers = {{ [\"Content-Type\"] = \"application/json\", [\"Authorization\"] = \"Bearer {token}\" }}\n\
         function request()\n  n = n + 1\n  return wrk.format(\"PATCH\", \"/v1/posts/\" .. string.format(\"%d\", ids[1 + n % #ids]), headers, '{{\"price\":' .. n .. '}}')\nend\n",
        ids.join(", ")
    ))
}

fn seed(url: &str, dir: &Path, more: &[&str]) -> anyhow::Result<()> {
    let seeded = Command::new(madang()?)
        .args(["seed", "--shared-hash", "--users", &CLIENTS.to_string()])
        .args(more)
        .args(["--set", &format!("database.url={url}"), "--data"])
        .arg(dir)
        .current_dir(dir)
        .output()?;
    ensure!(seeded.status.success(), "seed: {}", String::from_utf8_lossy(&seeded.stderr));
    Ok(())
}

/// Creates with the limit checked and without.
fn schedules(server: &MariaDb) -> anyhow::Result<String> {
    let mut subjects = Vec::new();
    for (name, limit) in [("free", "off"), ("counted", "1000000")] {
        let url = database(server, name)?;
        let dir = TempDir::new()?;
        seed(&url, dir.path(), &[])?;
        let (node, dir) = node(&url, &[&format!("schedules.limit={limit}")])?;
        let tokens = (1..=CLIENTS).map(|n| log_in(&node.url, n)).collect::<Result<Vec<_>, _>>()?;
        let script: PathBuf = dir.path().join("create.lua");
        std::fs::write(&script, lua(&tokens))?;
        subjects.push((node, dir, script, Vec::new()));
    }
    for round in 0..=ROUNDS {
        for (node, _, script, runs) in &mut subjects {
            let url = format!("{}/v1/schedules", node.url);
            let args = ["-s", script.to_str().context("a path of text")?];
            let run = wrk_with(&url, CLIENTS, SECONDS, &args, &|| node.process.sample())?;
            ensure!(run.errors == 0.0, "errors: {}", run.errors);
            if round > 0 {
                runs.push(run);
            }
        }
    }
    let rates = |at: usize| column(&subjects[at].3, rate);
    Ok(format!(
        "Creates of schedules by {CLIENTS} clients, each answer a 201: {} a second with `schedules.limit = off`, {} with `counter`: **{}**, and {:.0} × the 399 that the fastest of the documented ways was asked for and did.\n\n",
        spread(&rates(0), 0),
        spread(&rates(1), 0),
        spread(&ratios(&rates(1), &rates(0)), 2),
        median(&rates(1)) / DOCUMENTED_CREATES
    ))
}

/// Likes of pairs that were not liked before, in each way.
pub fn likes() -> anyhow::Result<String> {
    let dir = TempDir::new()?;
    let settings = MariaDbSettings { buffer_pool_mib: BUFFER_POOL_MIB, ..Default::default() };
    let server = &MariaDb::with(&supervisor()?, dir.path(), &settings)?;
    const ARTICLES: u32 = 50_000;
    // What it acknowledges is on disk, as what MariaDB does is.
    let keeps = ["--appendonly", "yes", "--appendfsync", "always"];
    let redis_dir = TempDir::new()?;
    let redis = Redis::with(&supervisor()?, redis_dir.path(), &keeps)?;
    let stream = format!("likes.url={}", redis.url());
    let mut subjects = Vec::new();
    for way in ["direct", "behind", "stream"] {
        let url = database(server, way)?;
        let dir = TempDir::new()?;
        seed(&url, dir.path(), &["--articles", &ARTICLES.to_string(), "--likes", "0"])?;
        let settings = [&format!("likes.write={way}"), "unsafe_experiments=true", &stream];
        let (node, dir) = node(&url, &settings)?;
        subjects.push((node, dir, Vec::new()));
    }
    let mut out = format!(
        "### Likes on MariaDB\n\n`PUT` of pairs that were not liked before by {CLIENTS} clients, {ROUNDS} rounds in turn; what is acknowledged is on disk (`innodb_flush_log_at_trx_commit = 1`, `appendfsync always`). Median (range).\n\n| pairs | direct, likes/s | behind, likes/s | stream, likes/s | **behind / direct** | **stream / direct** | stream: tables behind at the end of a round, s |\n|---|---|---|---|---|---|---|\n"
    );
    let mut first = 0;
    for (name, pairs) in
        [("spread", Pairs::Spread), ("one article after the other", Pairs::OneArticle)]
    {
        let mut lag: f64 = 0.0;
        for round in 0..=ROUNDS {
            for (node, _, runs) in &mut subjects {
                let run = like(node, pairs, first)?;
                ensure!(run.errors == 0.0, "errors: {}", run.errors);
                if round > 0 {
                    runs.push(run);
                    lag = lag.max(node.metric("madang_likes_lag_seconds")?);
                }
                while node.metric("madang_likes_pending")? > 0.0 {
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
            first += 500_000;
        }
        let [direct, behind, stream] = [0, 1, 2].map(|at| column(&subjects[at].2, rate));
        writeln!(
            out,
            "| {name} | {} | {} | {} | **{}** | **{}** | {lag:.2} |",
            spread(&direct, 0),
            spread(&behind, 0),
            spread(&stream, 0),
            spread(&ratios(&behind, &direct), 1),
            spread(&ratios(&stream, &direct), 1),
        )?;
        subjects.iter_mut().for_each(|(_, _, runs)| runs.clear());
    }
    out.push('\n');
    Ok(out)
}

fn row(out: &mut String, name: &str, rates: &[Vec<f64>]) -> anyhow::Result<()> {
    let [single, cluster] = rates else { anyhow::bail!("two subjects") };
    writeln!(
        out,
        "| {name} | {} | {} | **{}** |",
        spread(single, 0),
        spread(cluster, 0),
        spread(&ratios(cluster, single), 2)
    )?;
    Ok(())
}

/// What a Galera cluster of three costs, beside one server.
pub fn galera() -> anyhow::Result<String> {
    const ARTICLES: u32 = 50_000;
    let dirs = [TempDir::new()?, TempDir::new()?];
    let settings = MariaDbSettings { buffer_pool_mib: BUFFER_POOL_MIB, ..Default::default() };
    let single = MariaDb::with(&supervisor()?, dirs[0].path(), &settings)?;
    let servers = MariaDb::galera(&supervisor()?, dirs[1].path(), 3, &settings)?;
    // Servers of a cluster give every third id; the load names articles by all of them. Only one server is used here.
    for setting in [
        "wsrep_auto_increment_control = OFF",
        "auto_increment_increment = 1",
        "auto_increment_offset = 1",
    ] {
        mysql::Conn::new(servers[0].url().as_str())?.query_drop(format!("SET GLOBAL {setting}"))?;
    }
    let list = |name: &str| -> anyhow::Result<String> {
        database(&servers[0], name)?;
        let urls = servers.iter().map(|server| {
            let url = server.url();
            url.rsplit_once('/').map(|(base, _)| format!("{base}/{name}")).unwrap_or_default()
        });
        Ok(urls.collect::<Vec<_>>().join(","))
    };
    let mut out = format!(
        "### Galera\n\nA node on three servers of a Galera cluster and one on a single server, all on this machine, {CLIENTS} clients, {ROUNDS} rounds in turn; no answer was an error. Median (range).\n\n| | single, /s | Galera, /s | **Galera / single** |\n|---|---|---|---|\n"
    );
    for way in ["direct", "behind"] {
        let name = format!("likes_{way}");
        let mut subjects = Vec::new();
        for url in [database(&single, &name)?, list(&name)?] {
            let dir = TempDir::new()?;
            seed(&url, dir.path(), &["--articles", &ARTICLES.to_string(), "--likes", "0"])?;
            subjects.push((node(&url, &[&format!("likes.write={way}")])?, Vec::new()));
        }
        for round in 0..=ROUNDS {
            for ((node, _), runs) in &mut subjects {
                let run = like(node, Pairs::OneArticle, u32::try_from(round)? * 500_000)?;
                ensure!(run.errors == 0.0, "errors: {}", run.errors);
                if round > 0 {
                    runs.push(run);
                }
            }
        }
        row(
            &mut out,
            &format!("likes, `{way}`"),
            &subjects.iter().map(|(_, runs)| column(runs, rate)).collect::<Vec<_>>(),
        )?;
    }
    let mut subjects = Vec::new();
    for url in [database(&single, "plans")?, list("plans")?] {
        let dir = TempDir::new()?;
        seed(&url, dir.path(), &[])?;
        let (node, dir) = node(&url, &["schedules.limit=1000000"])?;
        let tokens = (1..=CLIENTS).map(|n| log_in(&node.url, n)).collect::<Result<Vec<_>, _>>()?;
        let script: PathBuf = dir.path().join("create.lua");
        std::fs::write(&script, lua(&tokens))?;
        subjects.push(((node, dir, script), Vec::new()));
    }
    for round in 0..=ROUNDS {
        for ((node, _, script), runs) in &mut subjects {
            let url = format!("{}/v1/schedules", node.url);
            let args = ["-s", script.to_str().context("a path of text")?];
            let run = wrk_with(&url, CLIENTS, SECONDS, &args, &|| node.process.sample())?;
            ensure!(run.errors == 0.0, "errors: {}", run.errors);
            if round > 0 {
                runs.push(run);
            }
        }
    }
    row(
        &mut out,
        "creates of schedules, counted",
        &subjects.iter().map(|(_, runs)| column(runs, rate)).collect::<Vec<_>>(),
    )?;
    out.push('\n');
    Ok(out)
}

/// One node and two behind nginx, each with a third of a core.
fn two_small_nodes(server: &MariaDb) -> anyhow::Result<String> {
    let url = database(server, "small")?;
    // Makes the tables, without a budget.
    drop(node(&url, &[])?);
    let budget = CpuBudget::fixed(0.33).map_err(|e| anyhow::anyhow!(e))?;
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let dir = TempDir::new()?;
        let url = format!("database.url={url}");
        // Without a cache it is the nodes that have the work, not nginx.
        let settings = [url.as_str(), KEY, "server.trusted_proxies=127.0.0.1/32", "cache.mode=off"];
        nodes.push((Served::within(&budget, dir.path(), &settings)?, dir));
    }
    let at = nodes.iter().map(|(node, _)| address(&node.url)).collect::<Result<Vec<_>, _>>()?;
    let dirs = [TempDir::new()?, TempDir::new()?];
    let fronts = [balancer(dirs[0].path(), vec![at[0]])?, balancer(dirs[1].path(), at)?];
    let mut runs = [Vec::new(), Vec::new()];
    for round in 0..=ROUNDS {
        for (front, runs) in fronts.iter().zip(&mut runs) {
            let run =
                wrk(&format!("{}{TRACK}", front.url()), CLIENTS, SECONDS, &[], &|| front.sample())?;
            ensure!(run.errors == 0.0, "errors: {}", run.errors);
            if round > 0 {
                runs.push(run);
            }
        }
    }
    let [one, two] = runs.map(|runs| column(&runs, rate));
    Ok(format!(
        "The track without a cache behind nginx, each node with a third of a core: {} a second from one node, {} from two: **{}**.\n\n",
        spread(&one, 0),
        spread(&two, 0),
        spread(&ratios(&two, &one), 2)
    ))
}
