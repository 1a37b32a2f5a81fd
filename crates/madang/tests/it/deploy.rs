//! What is in deploy/: settings, files and metrics that it names are there.

use crate::beside::Beside;
use crate::harness::server::sum;
use crate::harness::up::Up;
use crate::harness::{Connection, Madang, eventually};
use crate::nodes::KEY;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use yaml_rust2::{Yaml, YamlLoader};

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join("deploy")
}

fn yaml(file: &str) -> Yaml {
    let text = read_to_string(deploy().join(file)).unwrap();
    let mut documents = YamlLoader::load_from_str(&text).unwrap();
    assert_eq!(documents.len(), 1, "{file}");
    documents.remove(0)
}

/// Name and expression of each alert.
fn alerts() -> Vec<(String, String)> {
    let alerts = yaml("prometheus/alerts.yml");
    let rules = alerts["groups"][0]["rules"].as_vec().unwrap();
    let text = |rule: &Yaml, key: &str| rule[key].as_str().unwrap().to_owned();
    rules.iter().map(|rule| (text(rule, "alert"), text(rule, "expr"))).collect()
}

fn dashboard() -> Vec<(String, String)> {
    let text = read_to_string(deploy().join("grafana/madang.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let target = |panel: &Value, target: &Value| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&panel["title"]), text(&target["expr"]))
    };
    let targets = panels.iter().map(|panel| (panel, panel["targets"].as_array().unwrap()));
    targets.flat_map(|(panel, all)| all.iter().map(move |one| target(panel, one))).collect()
}

/// Words of an expression that stand for series: those that begin as ours do.
fn series(expression: &str) -> BTreeSet<&str> {
    let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("madang_") || word.starts_with("process_")).collect()
}

/// Labels that an expression sums by, or selects.
fn labels(expression: &str) -> BTreeSet<&str> {
    let by = expression.split("by (").skip(1).map(|rest| rest.split(')').next().unwrap());
    let selected = expression.split('{').skip(1).map(|rest| rest.split('}').next().unwrap());
    let selected =
        selected.flat_map(|all| all.split(',')).filter_map(|one| one.split(['=', '!']).next());
    by.flat_map(|all| all.split(',')).chain(selected).map(str::trim).collect()
}

#[test]
fn every_query_asks_for_what_a_node_shows() {
    let up = Up::start(&[
        "--nodes", "2", "--replicas", "1", "--cache", "valkey", "--set", "likes.write=stream",
    ]);
    let page = eventually("a request is counted", || {
        Connection::open(up.nodes[0]).get("/v1/tracks");
        let page = Connection::open(up.metrics[0]).get("/metrics").text();
        page.contains("madang_http_server_requests_total{").then_some(page)
    });
    // Nodes of a database server have a disk of their own, too.
    assert!(sum(&page, "madang_store_disk_free_bytes", &[]) > 0.0);
    let queries: Vec<_> = alerts().into_iter().chain(dashboard()).collect();
    assert!(queries.len() > 35, "{}", queries.len());
    for (name, expression) in &queries {
        let asked = series(expression);
        assert!(!asked.is_empty() || expression.starts_with("up{"), "{name}: {expression}");
        for series in &asked {
            let is_there = page.lines().any(|line| {
                line.strip_prefix(series).is_some_and(|rest| rest.starts_with(['{', ' ']))
            });
            assert!(is_there, "{name}: no node shows {series}");
        }
        // Prometheus itself adds these two.
        for label in
            labels(expression).into_iter().filter(|label| !["instance", "job"].contains(label))
        {
            let has = asked.iter().all(|series| {
                page.lines().any(|line| {
                    line.starts_with(&format!("{series}{{"))
                        && line.contains(&format!("{label}=\""))
                })
            });
            assert!(has, "{name}: {expression}: no label {label}");
        }
    }
}

#[test]
fn every_alert_is_explained_and_nothing_else_is() {
    let page = include_str!("../../../../docs/OPERATIONS.md");
    let (_, table) = page.split_once("| alert | means | what to do |\n|---|---|---|\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let explained: Vec<_> = rows.map(|row| row.split('`').nth(1).unwrap()).collect();
    let named: Vec<_> = alerts().into_iter().map(|(name, _)| name).collect();
    assert_eq!(explained, named);
}

#[test]
fn what_would_fail_is_said_before_a_node_is_started() {
    let shared = Beside::new();
    let dir = tempfile::tempdir().unwrap();
    let nobody = "redis://127.0.0.1:1";
    let check = |cache: &str, guard: &str, data: &Path| {
        Madang::new(["check", "--set", "cache.mode=remote", "--set", "likes.write=stream"])
            .env("MADANG_DATABASE_URL", &shared.cluster.database.url())
            .env("MADANG_DATA_DIR", data.to_str().unwrap())
            .env("MADANG_ACCOUNTS_TOKEN_KEY", KEY)
            .env("MADANG_SERVER_LISTEN", "127.0.0.1:0")
            .env("MADANG_CACHE_URL", cache)
            .env("MADANG_GUARD_URL", guard)
            .env("MADANG_LIKES_URL", &shared.redis.url())
    };
    let redis = shared.redis.url();
    let right = check(&redis, &redis, dir.path()).succeeds().stdout;
    for line in
        ["data.dir: ", "server.listen: ", "cache.url: ", "guard.url: ", "likes.url: ", "database: "]
    {
        assert!(right.lines().any(|said| said.starts_with(line)), "{line}: {right}");
    }
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let wrong = check(nobody, "redis://:secret@127.0.0.1:1", &file).fails_with(1).stdout;
    for line in ["wrong: data.dir: ", "wrong: cache.url: ", "wrong: guard.url: ", "database: "] {
        assert!(wrong.lines().any(|said| said.starts_with(line)), "{line}: {wrong}");
    }
    assert!(!wrong.contains("secret"), "{wrong}");
    // What is kept on it must not be evicted.
    assert_eq!(
        shared.cli(&["CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru"]),
        "OK"
    );
    let evicts = check(&redis, &redis, dir.path()).fails_with(1).stdout;
    assert!(evicts.contains("wrong: likes.url: ") && evicts.contains("noeviction"), "{evicts}");
}

/// The settings of a node of compose.yaml, with a secret in place of each variable.
fn node_settings(compose: &Yaml) -> Vec<(String, String)> {
    let environment = compose["x-node"]["environment"].as_hash().unwrap();
    let text = |value: &Yaml| value.as_str().unwrap().to_owned();
    let secret = "0123456789abcdef".repeat(4);
    environment
        .iter()
        .map(|(name, value)| {
            let mut value = text(value);
            while let Some((before, rest)) = value.split_once("${") {
                let (_, after) = rest.split_once('}').unwrap();
                value = format!("{before}{secret}{after}");
            }
            (text(name), value)
        })
        .collect()
}

#[test]
fn the_compose_file_sets_what_a_node_knows_and_names_what_is_there() {
    let compose = yaml("compose.yaml");
    let services = compose["services"].as_hash().unwrap();
    let settings = node_settings(&compose);
    let mut config = Madang::new(["config", "--changed"]);
    for (name, value) in &settings {
        config = config.env(name, value);
    }
    let shown = config.succeeds().stdout;
    for (name, value) in &settings {
        let (section, key) = name.strip_prefix("MADANG_").unwrap().split_once('_').unwrap();
        let line = shown.lines().find(|line| {
            let line = line.trim_start_matches("# ");
            line.starts_with(&format!("{} = ", key.to_lowercase()))
        });
        assert!(line.is_some(), "[{}] {key} = {value}: {shown}", section.to_lowercase());
        // Hosts are other services.
        for url in value.split(',').filter_map(|url| url.split_once("://")) {
            let host = url.1.rsplit('@').next().unwrap().split([':', '/']).next().unwrap();
            assert!(services.contains_key(&Yaml::String(host.to_owned())), "{host}");
        }
    }
    // Files that are mounted are there, but for those that the operator makes.
    for service in services.values() {
        for volume in service["volumes"].as_vec().into_iter().flatten() {
            let source = volume.as_str().unwrap().split(':').next().unwrap();
            if source.starts_with("./") && source != "./tls" {
                assert!(deploy().join(source).exists(), "{source}");
            }
        }
    }
    let nginx = services[&Yaml::String("nginx".to_owned())]["command"][2].as_str().unwrap();
    let tuned = read_to_string(deploy().join("nginx/tuned.conf")).unwrap();
    for pair in nginx.split("s/").skip(1).take(2) {
        let mut parts = pair.split('/');
        let (address, node) = (parts.next().unwrap(), parts.next().unwrap());
        assert!(tuned.contains(&format!("server {address} ")), "{address}");
        let host = node.split(':').next().unwrap();
        assert!(services.contains_key(&Yaml::String(host.to_owned())), "{host}");
    }
    let targets = yaml("prometheus/prometheus.yml");
    let targets = &targets["scrape_configs"][0]["static_configs"][0]["targets"];
    let dockerfile = read_to_string(deploy().join("container/Dockerfile")).unwrap();
    for target in targets.as_vec().unwrap() {
        let (host, port) = target.as_str().unwrap().split_once(':').unwrap();
        assert!(services.contains_key(&Yaml::String(host.to_owned())), "{host}");
        assert!(dockerfile.contains(&format!("MADANG_SERVER_METRICS_LISTEN=0.0.0.0:{port}")));
    }
    // Every variable that compose wants has a line in the example.
    let text = read_to_string(deploy().join("compose.yaml")).unwrap();
    let example = read_to_string(deploy().join("compose.env.example")).unwrap();
    let wanted: BTreeSet<_> =
        text.split("${").skip(1).map(|rest| rest.split(":?}").next().unwrap()).collect();
    let offered: BTreeSet<_> = example.lines().filter_map(|line| line.strip_suffix('=')).collect();
    assert_eq!(wanted, offered);
}
