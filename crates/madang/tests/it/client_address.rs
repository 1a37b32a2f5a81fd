//! Whose address counts: seen through the number of sign-ups that one address may make.

use crate::harness::people::PASSWORD;
use crate::harness::{Server, Setup};
use serde_json::json;
use std::sync::atomic::{AtomicU32, Ordering};

const IGNORED: &str = "madang_untrusted_forwards_total";

fn start(trusted: &str) -> Server {
    let setup = Setup::new().cheap_hash().set("guard.sign_up", "2/1h");
    setup.set("server.trusted_proxies", trusted).start()
}

/// Registers somebody new with these lines of `X-Forwarded-For`; answers whether it was allowed.
fn sign_up(server: &Server, forwarded_for: &[&str]) -> bool {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let nickname = format!("runner-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let body = json!({"nickname": nickname, "password": PASSWORD, "region_name": "서울특별시"});
    let lines = forwarded_for.iter().map(|line| ("X-Forwarded-For", *line));
    let headers: Vec<_> = lines.chain([("Content-Type", "application/json")]).collect();
    let path = "/v1/auth/user/register";
    let answer = server.connect().send_body("POST", path, &headers, body.to_string());
    match answer.status {
        201 => true,
        _ => {
            answer.problem(429);
            false
        }
    }
}

#[test]
fn without_a_trusted_proxy_no_claim_changes_who_is_counted() {
    let server = start("");
    assert!(sign_up(&server, &["1.1.1.1"]));
    assert!(sign_up(&server, &["2.2.2.2"]));
    for claim in ["3.3.3.3", "4.4.4.4, 127.0.0.1", "unknown", "[::1]:80"] {
        assert!(!sign_up(&server, &[claim]), "{claim}");
    }
    assert!(!sign_up(&server, &[]));
    let line = server.until_logged("server.trusted_proxies");
    assert!(line.contains("\"127.0.0.1\""), "the warning says what to set: {line}");
    assert_eq!(server.log().matches("server.trusted_proxies").count(), 1, "said once");
    server.until_metric(IGNORED, &[], 6.0);
}

#[test]
fn behind_a_trusted_proxy_each_client_is_counted_alone() {
    let server = start("127.0.0.1, 10.0.0.0/8");
    for client in ["1.1.1.1", "2.2.2.2:4711", "2001:db8::1", "[2001:db8:1::1]:80"] {
        assert!(sign_up(&server, &[client]) && sign_up(&server, &[client]), "{client}");
        assert!(!sign_up(&server, &[client]), "{client}");
    }
    assert!(sign_up(&server, &[]), "the proxy itself");
    server.until_metric(IGNORED, &[], 0.0);
}

#[test]
fn what_a_client_claims_before_the_proxy_appends_is_ignored() {
    let server = start("127.0.0.1, 10.0.0.0/8");
    assert!(sign_up(&server, &["6.6.6.1, 9.9.9.9"]));
    assert!(sign_up(&server, &["6.6.6.2", "9.9.9.9, 10.1.2.3"]));
    for lines in [
        &["6.6.6.3, 9.9.9.9"][..],
        &["6.6.6.4", "6.6.6.5, 9.9.9.9"],
        &["127.0.0.1, 10.0.0.1, 9.9.9.9, 10.1.1.1"],
        &["nonsense,, 9.9.9.9,"],
        &["::ffff:9.9.9.9"],
    ] {
        assert!(!sign_up(&server, lines), "{lines:?}");
    }
}

#[test]
fn an_unreadable_hop_counts_as_the_proxy_that_wrote_it() {
    let server = start("127.0.0.1, 10.0.0.0/8");
    assert!(sign_up(&server, &["1.1.1.1, unknown"]));
    assert!(sign_up(&server, &["2.2.2.2, _hidden, 127.0.0.1"]));
    assert!(!sign_up(&server, &["3.3.3.3, 1.2.3"]));
    assert!(sign_up(&server, &["4.4.4.4, unknown, 10.0.0.1"]), "another proxy");
}

#[test]
fn addresses_of_one_64_bit_network_are_one_client() {
    let server = start("127.0.0.1");
    assert!(sign_up(&server, &["2001:db8::1"]));
    assert!(sign_up(&server, &["2001:db8::2"]));
    assert!(!sign_up(&server, &["2001:db8::3"]));
    assert!(sign_up(&server, &["2001:db8:0:1::1"]));
}
