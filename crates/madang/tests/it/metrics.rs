//! `/metrics`: names, units, labels, and where it is served.

use crate::harness::{Connection, Setup, stores};
use std::collections::HashMap;

#[test]
fn names_have_base_units_and_counters_end_in_total() {
    let server = Setup::new().start();
    server.get("/v1/tracks");
    let page = server.metrics_page();
    assert!(page.ends_with("# EOF\n"));
    let mut types = HashMap::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(types.insert(name, kind).is_none(), "{name} twice");
        }
    }
    assert!(types.len() >= 30, "{types:?}");
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let series = line.rsplit_once(' ').unwrap().0;
        let name = series.split('{').next().unwrap();
        assert!(name.starts_with("madang_") || name.starts_with("process_"), "{name}");
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
        for unit in ["_ms", "_millis", "_micros", "_kb", "_mb", "_percent"] {
            assert!(!name.ends_with(unit) && !name.contains(&format!("{unit}_")), "{name}");
        }
        let kind = |suffix: &str| name.strip_suffix(suffix).and_then(|base| types.get(base));
        match (types.get(name), kind("_total")) {
            (Some(&"gauge"), _) | (_, Some(&"counter")) => {}
            _ => {
                let parts = ["_bucket", "_sum", "_count"];
                let part = parts.iter().find_map(|suffix| kind(suffix));
                assert_eq!(part, Some(&"histogram"), "{name}");
                assert!(name.contains("_seconds"), "{name}");
            }
        }
    }
}

#[test]
fn what_dashboards_need_is_there() {
    let server = Setup::new().start();
    server.get("/v1/tracks/1");
    let page = server.metrics_page();
    let has = |name: &str| {
        page.lines()
            .any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])))
    };
    for name in [
        "madang_http_server_requests_total",
        "madang_http_server_request_duration_seconds_bucket",
        "madang_http_server_requests_in_flight",
        "madang_http_server_client_disconnects_total",
        "madang_http_server_connections",
        "madang_http_server_connections_refused_total",
        "madang_store_commits_total",
        "madang_store_reads_total",
        "madang_store_read_queue",
        "madang_store_checkpoints_total",
        "madang_store_log_cuts_total",
        "madang_store_disk_free_bytes",
        "madang_compute_jobs_total",
        "madang_cache_hits_total",
        "madang_cache_misses_total",
        "madang_cache_stale_served_total",
        "madang_cache_vetoed_fills_total",
        "madang_cache_used_bytes",
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "process_open_fds",
        "process_max_fds",
        "process_start_time_seconds",
    ] {
        assert!(has(name), "no {name} in\n{page}");
    }
    // The files of a server are that server's.
    for name in ["madang_store_database_bytes", "madang_store_log_bytes"] {
        assert_eq!(has(name), madang_testing::database().is_none(), "{name} in\n{page}");
    }
}

#[test]
fn routes_are_labelled_by_template_never_by_id() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).start();
    for id in ["1", "2", "3", "777777", "abc", "888888?detail=low"] {
        server.get(&format!("/v1/tracks/{id}"));
    }
    server.get("/secret/path/4711");
    let page = server.metrics_page();
    let by = |labels: &[&str]| {
        crate::harness::server::sum(&page, "madang_http_server_requests_total", labels)
    };
    assert_eq!(by(&["route=\"/v1/tracks/{id}\"", "status=\"200\"", "method=\"GET\""]), 3.0);
    assert_eq!(by(&["route=\"/v1/tracks/{id}\"", "status=\"404\""]), 3.0);
    assert_eq!(by(&["route=\"unmatched\"", "status=\"404\""]), 1.0);
    // Without the values, which may have any digits.
    let names = page.lines().filter_map(|line| line.rsplit_once(' ')).map(|(name, _)| name);
    for name in names {
        for secret in ["777777", "abc", "888888", "secret", "4711"] {
            assert!(!name.contains(secret), "{secret} is a label: {name}");
        }
    }
}

#[test]
fn invented_methods_share_one_label() {
    let server = Setup::new().start();
    for method in ["BREW", "PROPFIND", "X1", "X2"] {
        server.connect().request(method, "/v1/tracks", &[]);
    }
    let page = server.metrics_page();
    assert!(!page.contains("BREW") && !page.contains("PROPFIND") && !page.contains("X1"));
    let others = server.metric("madang_http_server_requests_total", &["method=\"other\""]);
    assert_eq!(others, 4.0);
}

#[test]
fn the_page_is_on_its_own_listener_and_nothing_else_is() {
    let server = Setup::new().start();
    server.get("/metrics").problem(404);
    assert_ne!(server.api, server.metrics);
    let mut connection = Connection::open(server.metrics);
    for path in ["/", "/v1/tracks", "/health/live", "/metrics/x"] {
        assert_eq!(connection.get(path).status, 404, "{path}");
    }
    let page = connection.get("/metrics");
    let kind = page.header("content-type").unwrap();
    assert!(kind.starts_with("application/openmetrics-text; version=1.0.0"), "{kind}");
}

#[test]
fn connections_are_counted_as_long_as_they_live() {
    const OPEN: &str = "madang_http_server_connections";
    let server = Setup::new().start();
    let mut open: Vec<_> = (0..5).map(|_| server.connect()).collect();
    for connection in &mut open {
        connection.get("/health/live");
    }
    server.until_metric(OPEN, &[], 5.0);
    drop(open);
    crate::harness::eventually("all are gone", || (server.metric(OPEN, &[]) == 0.0).then_some(()));
}
