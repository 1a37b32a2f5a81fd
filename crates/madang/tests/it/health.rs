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
    const ASKED: u32 = 20;
    let server = Setup::new().start();
    let reads_of = |path| {
        let before = server.reads();
        for _ in 0..ASKED {
            server.get(path);
        }
        server.reads() - before
    };
    assert_eq!(reads_of("/health/live"), 0.0);
    assert_eq!(reads_of("/health/ready"), f64::from(ASKED));
}
