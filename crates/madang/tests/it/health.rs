//! Liveness and readiness. Readiness while draining is tested with the other promises of the end.

use crate::harness::Setup;

#[test]
fn a_running_server_is_alive_and_ready() {
    let server = Setup::new().start();
    for path in ["/health/live", "/health/ready"] {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.text().as_str()), (200, "ok\n"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
}

#[test]
fn readiness_asks_the_store_and_liveness_does_not() {
    let server = Setup::new().start();
    let reads = || server.metric("madang_store_reads_total", &[]);
    let before = reads();
    server.get("/health/live");
    assert!((reads() - before).abs() < f64::EPSILON);
    server.get("/health/ready");
    assert!((reads() - before - 1.0).abs() < f64::EPSILON);
}
