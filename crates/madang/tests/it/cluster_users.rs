//! Thousands of users of two nodes behind nginx, each with a connection that is kept, while all nodes are restarted.

use crate::cluster_drills::{row, two_nodes};
use crate::harness::command::{clean, program};
use crate::harness::eventually;
use madang_testing::drill;
use serde_json::Value;
use std::process::{Child, Stdio};

const USERS: u32 = 4_000;
const SECONDS: u32 = 60;

/// Each user looks at something every few seconds; what is wrong with an answer is a failed check.
const SCRIPT: &str = "import http from 'k6/http';
import { check, sleep } from 'k6';
const paths = ['/v1/tracks/1', '/v1/articles?sort=likes', '/v1/posts', '/v1/markets?q=%EC%8B%9C%EC%9E%A5', '/'];
export default function () {
  const path = paths[Math.floor(Math.random() * paths.length)];
  const res = http.get(`${__ENV.BASE_URL}${path}`);
  check(res, { 'is 200': (r) => r.status === 200 });
  sleep(1 + 2 * Math.random());
}
";

#[test]
fn thousands_of_users_see_no_error_while_all_nodes_are_restarted() {
    if !drill!() {
        return;
    }
    let up = two_nodes(&["--demo"]);
    let dir = tempfile::tempdir().unwrap();
    let [script, export] = ["users.js", "users.json"].map(|name| dir.path().join(name));
    std::fs::write(&script, SCRIPT).unwrap();
    let mut load = clean(program())
        .args(["load", "--quiet", "--vus", &USERS.to_string()])
        .args(["--duration", &format!("{SECONDS}s"), "-e", &format!("BASE_URL=http://{}", up.url)])
        .arg("--summary-export")
        .args([&export, &script])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let asked = || up.metric("madang_http_server_requests_total");
    eventually("every user has come several times", || {
        assert!(is_running(&mut load), "the load ended early");
        (asked() > f64::from(5 * USERS)).then_some(())
    });
    let said = up.restart();
    assert_eq!(said.matches("restarted").count(), 2, "{said}");
    assert!(is_running(&mut load), "the load ended before the restart did");
    let ended = load.wait().unwrap();
    assert!(ended.success(), "{ended}");

    let summary: Value = serde_json::from_slice(&std::fs::read(export).unwrap()).unwrap();
    let metric = |name: &str, key: &str| summary["metrics"][name][key].as_f64().unwrap();
    let requests = metric("http_reqs", "count");
    let (failed, wrong) = (metric("http_req_failed", "passes"), metric("checks", "fails"));
    let slowest = metric("http_req_duration", "max") / 1e3;
    row(&format!(
        "| {USERS} users behind nginx for {SECONDS} s, all nodes restarted meanwhile | {requests} | – | {} | {slowest:.1} | – | – |\n",
        if failed + wrong == 0.0 { "none".to_owned() } else { format!("{failed} failed") }
    ));
    assert_eq!((failed, wrong), (0.0, 0.0), "{summary}");
    assert!(requests > f64::from(10 * USERS), "{summary}");
}

fn is_running(child: &mut Child) -> bool {
    child.try_wait().unwrap().is_none()
}
