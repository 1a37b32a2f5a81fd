//! How often a market was viewed: exact, once for each visitor and day, and never in the way.

use crate::harness::{Server, Setup, database, stores};
use std::path::Path;

/// Views as `who`.
fn view(server: &Server, id: i64, who: &str) -> u64 {
    let answer = server.get_with(&format!("/v1/markets/{id}"), &[("User-Agent", who)]);
    assert_eq!(answer.status, 200);
    answer.json()["viewCount"].as_u64().unwrap()
}

fn settled(server: &Server, views: f64) {
    crate::harness::eventually("every view is settled", || {
        let metric = |what: &str| server.metric(&format!("madang_market_views_{what}_total"), &[]);
        (metric("counted") + metric("repeated") + metric("dropped") >= views).then_some(())
    });
}

/// Counts of which some are not the rows behind them.
fn broken(dir: &Path) -> i64 {
    database::number(
        dir,
        "select count(*) from market_view_counts c where views <> settled +
           (select count(*) from market_views v where v.market_id = c.market_id)",
    )
    .unwrap()
}

/// Visitors of other addresses, through a proxy that is believed.
fn behind_a_proxy() -> Setup {
    Setup::new().set("server.trusted_proxies", "127.0.0.1")
}

fn view_from(server: &Server, id: i64, address: &str) {
    let headers = [("X-Forwarded-For", address)];
    assert_eq!(server.get_with(&format!("/v1/markets/{id}"), &headers).status, 200);
}

#[test]
fn sixty_four_visitors_at_once_are_counted_exactly_and_each_once() {
    let dir = stores::demo();
    let server = behind_a_proxy().data(dir.path()).start();
    std::thread::scope(|scope| {
        for n in 0..64 {
            let server = &server;
            scope.spawn(move || {
                for _ in 0..5 {
                    for id in [1, 2] {
                        view_from(server, id, &format!("10.1.0.{n}"));
                    }
                }
            });
        }
    });
    settled(&server, 640.0);
    assert_eq!(server.metric("madang_market_views_counted_total", &[]), 128.0);
    assert_eq!(server.metric("madang_market_views_dropped_total", &[]), 0.0);
    assert_eq!(view(&server, 1, "x"), 64);
    assert_eq!(view(&server, 2, "x"), 64);
    assert_eq!(broken(dir.path()), 0);
    let rows =
        database::number(dir.path(), "select count(*) from market_views where market_id = 1");
    assert!(rows >= Some(64), "{rows:?}");
    server.is_well();
}

#[test]
fn counts_outlive_a_stop_and_what_waits_is_written_before_it() {
    let dir = stores::demo();
    let server = behind_a_proxy().data(dir.path()).start();
    for n in 0..30 {
        view_from(&server, 7, &format!("10.1.0.{n}"));
    }
    server.stop();
    assert_eq!(broken(dir.path()), 0);
    let server = behind_a_proxy().data(dir.path()).start();
    view_from(&server, 7, "10.1.0.3");
    settled(&server, 1.0);
    assert_eq!(server.metric("madang_market_views_repeated_total", &[]), 1.0, "known from before");
    assert_eq!(view(&server, 7, "x"), 30);
}

#[test]
fn a_user_is_one_visitor_whatever_the_browser_and_a_head_is_none() {
    let dir = stores::demo();
    let server = Setup::new().data(dir.path()).cheap_hash().start();
    let mina = server.somebody("mina");
    let bearer = mina.bearer();
    for agent in ["a", "b", "c"] {
        let headers = [("Authorization", bearer.as_str()), ("User-Agent", agent)];
        assert_eq!(server.get_with("/v1/markets/3", &headers).status, 200);
    }
    server.connect().request("HEAD", "/v1/markets/3", &[("User-Agent", "head")]);
    settled(&server, 3.0);
    assert_eq!(view(&server, 3, "x"), 1);
    let wrong = [("Authorization", "Bearer nonsense")];
    server.get_with("/v1/markets/3", &wrong).problem(401);
}

#[test]
fn nobody_counts_for_more_by_inventing_browsers() {
    let dir = stores::demo();
    let server = Setup::new().data(dir.path()).start();
    let mut connection = server.connect();
    for n in 0..300 {
        connection.request("GET", "/v1/markets/5", &[("User-Agent", &format!("browser {n}"))]);
    }
    settled(&server, 300.0);
    assert_eq!(view(&server, 5, "x"), 16);
}

#[test]
fn a_view_changes_no_cached_body_and_reads_nothing() {
    let dir = stores::demo();
    let server = behind_a_proxy().data(dir.path()).start();
    view_from(&server, 9, "10.0.0.1");
    let loads = || server.metric("madang_cache_loads_total", &["cache=\"markets\""]);
    let (first, reads) = (loads(), server.reads());
    for n in 2..40 {
        view_from(&server, 9, &format!("10.0.0.{n}"));
        if n == 20 {
            settled(&server, 20.0);
        }
    }
    settled(&server, 39.0);
    assert_eq!(loads(), first, "made once");
    assert_eq!(server.reads(), reads);
    assert_eq!(view(&server, 9, "x"), 39);
    let most = server.get("/v1/markets?sort=views&limit=2").json();
    assert_eq!(most["items"][0]["id"], 9);
}

#[test]
fn days_that_are_over_are_folded_into_the_counts() {
    let dir = stores::demo();
    database::execute(
        dir.path(),
        "insert into market_view_counts values (4, 9000, 0);
         insert into market_views select 100, 4, randomblob(16) from
           (with recursive n(i) as (select 1 union all select i + 1 from n where i < 9000) select i from n) t;",
    );
    let server = Setup::new().data(dir.path()).start();
    crate::harness::eventually("old rows are gone", || {
        (database::number(dir.path(), "select count(*) from market_views")? == 0).then_some(())
    });
    assert_eq!(broken(dir.path()), 0);
    assert_eq!(view(&server, 4, "x"), 9000);
}

#[test]
fn accounts_of_one_address_share_its_day_and_another_address_has_its_own() {
    let dir = stores::demo();
    let server = behind_a_proxy().data(dir.path()).cheap_hash().start();
    let people = ["mina", "juno", "sora", "hana", "duri"].map(|name| server.somebody(name));
    // Five accounts that look at 300 markets each are 1,500 views; 1,000 of them count.
    std::thread::scope(|scope| {
        for person in &people {
            let server = &server;
            scope.spawn(move || {
                let bearer = person.bearer();
                let mut connection = server.connect();
                for id in 1..=300 {
                    let headers =
                        [("Authorization", bearer.as_str()), ("X-Forwarded-For", "203.0.113.7")];
                    let path = format!("/v1/markets/{id}");
                    assert_eq!(connection.request("GET", &path, &headers).status, 200);
                }
            });
        }
    });
    settled(&server, 1_500.0);
    assert_eq!(server.metric("madang_market_views_counted_total", &[]), 1_000.0);
    assert_eq!(server.metric("madang_market_views_dropped_total", &[]), 500.0);
    let before = view(&server, 1_000, "x");
    view_from(&server, 1_000, "203.0.113.8");
    settled(&server, 1_502.0);
    assert_eq!(server.metric("madang_market_views_counted_total", &[]), 1_002.0);
    assert_eq!(view(&server, 1_000, "x"), before + 2);
    assert_eq!(broken(dir.path()), 0);
}
