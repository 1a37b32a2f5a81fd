//! Admission, values that are not stored, and the disabled cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use madang_cache::{
    Admission, Cache, CacheConfig, ConfigError, Loaded, NamedCache, Policy, Stamp, entry_weight,
};
use tokio::time::advance;

use crate::kit::{Boom, Kit, SECOND, body, plain, told, value};

#[tokio::test(start_paused = true)]
async fn a_bypassed_value_is_served_and_not_stored() {
    let kit = Kit::new(plain());
    let load = kit.begin_load("k").await;
    let follower = kit.join_load("k").await;
    assert_eq!(load.answer(Ok(Loaded::Bypass(value("v")))).await, "v Bypass");
    assert_eq!(follower.await.unwrap(), "v Coalesced");
    assert_eq!(kit.get("k", body("w")).await, "w Miss");
    assert_eq!(kit.metrics().refused_by_predicate, 1);
}

#[tokio::test(start_paused = true)]
async fn a_value_beyond_the_limit_is_served_and_not_stored() {
    let fits = entry_weight("k", Some(&value("1234")));
    let kit = Kit::new(Policy { max_entry_bytes: fits, ..plain() });
    // One byte more of body is also one more in each of the two forms of the tag.
    assert_eq!(kit.get("k", body("12345")).await, "12345 Miss");
    assert_eq!((kit.metrics().refused_by_size, kit.metrics().entries), (1, 0));
    assert_eq!(kit.get("k", body("1234")).await, "1234 Miss");
    assert_eq!(kit.hit("k").await, "1234 Hit");
    assert_eq!((kit.metrics().refused_by_size, kit.metrics().bytes), (1, fits));
}

#[tokio::test(start_paused = true)]
async fn a_value_heavier_than_the_cache_is_served_and_drives_nothing_out() {
    let small = entry_weight("a", Some(&value("1")));
    let kit = Kit::with_config(&CacheConfig::with_capacity(2 * small));
    kit.get("a", body("1")).await;
    let long = "x".repeat(1000);
    assert_eq!(kit.get("b", body(&long)).await, format!("{long} Miss"));
    assert_eq!(kit.hit("a").await, "1 Hit");
    assert_eq!(kit.metrics().refused_by_size, 1);
}

#[tokio::test(start_paused = true)]
async fn a_newer_value_that_is_not_stored_takes_the_older_one_away() {
    let kit = Kit::new(Policy { max_entry_bytes: 1000, ..plain() });
    let long = "x".repeat(1000);
    for newer in [Loaded::Bypass(value("new")), Loaded::Store(value(&long))] {
        kit.get("k", body("old")).await;
        advance(60 * SECOND).await;
        kit.get("k", Ok(newer)).await;
        let told = kit.get("k", Err(Boom(1))).await;
        assert_eq!(told, "error: the loader failed: boom 1");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_anybody_can_make_up_is_stored_when_it_is_loaded_for_the_second_time() {
    let kit = Kit::new(Policy { admission: Admission::Nothing, ..plain() });
    assert_eq!(kit.get("k", body("1")).await, "1 Miss");
    assert_eq!(kit.get("k", body("2")).await, "2 Miss");
    assert_eq!(kit.hit("k").await, "2 Hit");
    for n in 0..1000 {
        kit.get(&format!("made up {n}"), body("x")).await;
    }
    assert_eq!((kit.metrics().entries, kit.metrics().refused_by_predicate), (1, 1001));
    // A caller that joins the first load does not make it a second one.
    let load = kit.begin_load("shared").await;
    let follower = kit.join_load("shared").await;
    assert_eq!(load.answer(body("v")).await, "v Miss");
    assert_eq!(follower.await.unwrap(), "v Coalesced");
    assert_eq!(kit.metrics().entries, 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_stored_once_is_stored_again_after_a_write_and_after_its_time() {
    let kit = Kit::new(Policy { admission: Admission::Nothing, ..plain() });
    kit.get("k", body("1")).await;
    kit.get("k", body("2")).await;
    // Enough other loads that its first ones are forgotten.
    for n in 0..150_000 {
        kit.get(&format!("made up {n}"), body("x")).await;
    }
    kit.write("k");
    assert_eq!(kit.get("k", body("3")).await, "3 Miss");
    assert_eq!(kit.hit("k").await, "3 Hit");
    advance(60 * SECOND).await;
    assert_eq!(kit.get("k", body("4")).await, "4 Miss");
    assert_eq!(kit.hit("k").await, "4 Hit");
}

#[tokio::test(start_paused = true)]
async fn that_there_is_no_such_thing_is_stored_when_it_is_asked_for_twice() {
    let kit = Kit::new(Policy { admission: Admission::Values, ..plain() });
    for n in 0..1000 {
        assert_eq!(kit.get(&n.to_string(), Ok(Loaded::Absent)).await, "nothing Miss");
    }
    assert_eq!(kit.metrics().entries, 0);
    assert_eq!(kit.get("k", Ok(Loaded::Absent)).await, "nothing Miss");
    assert_eq!(kit.get("k", Ok(Loaded::Absent)).await, "nothing Miss");
    assert_eq!(kit.hit("k").await, "nothing Hit");
    kit.write("k");
    assert_eq!(kit.get("k", body("v")).await, "v Miss");
    assert_eq!(kit.hit("k").await, "v Hit");
    assert_eq!(kit.get("other", body("v")).await, "v Miss");
    assert_eq!(kit.hit("other").await, "v Hit");
}

/// A text large enough to be shared while somebody uses it, though it is not stored.
fn large(letter: &str) -> String {
    letter.repeat(70_000)
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_to_be_stored_is_shared_as_long_as_somebody_has_it() {
    let kit = Kit::new(Policy { max_entry_bytes: 1000, ..plain() });
    for kind in [Loaded::Store, Loaded::Bypass] {
        let loaded = kind(value(&large("v")));
        let holder = kit.get_with("k", move || async move { Ok(loaded) }).await.unwrap();
        assert_eq!(kit.hit("k").await, format!("{} Coalesced", large("v")));
        drop(holder);
        let again = kit.get("k", body(&large("w"))).await;
        assert_eq!(again.trim_start_matches('w'), " Miss");
    }
    assert_eq!(kit.metrics().entries, 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_shared_ends_with_a_write_and_with_its_time() {
    let kit = Kit::new(Policy { max_entry_bytes: 1000, ..plain() });
    let first = kit.get_with("k", || async { body(&large("v")) }).await.unwrap();
    kit.write("k");
    let second = kit.get_with("k", || async { body(&large("w")) }).await.unwrap();
    assert_eq!(kit.hit("k").await, format!("{} Coalesced", large("w")));
    advance(61 * SECOND).await;
    assert_eq!(kit.get("k", body("x")).await, "x Miss");
    drop((first, second));
}

/// Looks the same key up twice at once and once more, and returns the number of loads.
async fn loads_of(named: &NamedCache<Boom>) -> usize {
    let loads = Arc::new(AtomicUsize::new(0));
    let get = || async {
        let loads = Arc::clone(&loads);
        let loader = move || async move {
            loads.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            body("v")
        };
        told(&named.get("k", &[Stamp::new("k")], loader).await)
    };
    let (first, second) = tokio::join!(get(), get());
    assert!([first, second, get().await].iter().all(|told| told.starts_with("v ")));
    loads.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn off_means_that_every_look_up_runs_its_loader() {
    assert_eq!(loads_of(&Kit::new(plain()).named).await, 1, "the cache that is on");
    let cache = Cache::disabled();
    let config = CacheConfig { enabled: false, ..CacheConfig::default() };
    for named in [
        Kit::new(Policy::off()).named,
        cache.named("test", plain()).unwrap(),
        Kit::with_config(&config).named,
    ] {
        assert_eq!(loads_of(&named).await, 3);
        assert!(named.peek_fresh("k").is_none());
        let metrics = named.metrics();
        assert_eq!((metrics.misses, metrics.loads, metrics.entries), (3, 3, 0));
    }
    cache.invalidate(&[Stamp::new("k")]);
}

#[tokio::test(start_paused = true)]
async fn off_means_that_errors_go_to_their_caller_and_nothing_is_paused() {
    let kit = Kit::new(Policy { failure_backoff: SECOND, ..Policy::off() });
    for n in [1, 2] {
        let expected = format!("error: the loader failed: boom {n}");
        assert_eq!(kit.get("k", Err(Boom(n))).await, expected);
    }
    assert_eq!(kit.get("k", Ok(Loaded::Absent)).await, "nothing Miss");
    assert_eq!(kit.get("k", Ok(Loaded::Bypass(value("v")))).await, "v Bypass");
    assert_eq!(kit.metrics().load_errors, 2);
}

#[test]
fn settings_that_cannot_work_are_refused_by_name() {
    let cache = Cache::new(&CacheConfig::default()).unwrap();
    let zero = Duration::ZERO;
    let policies = [
        (Policy { soft_ttl: zero, ..plain() }, "soft_ttl"),
        (Policy { hard_ttl: SECOND, ..plain() }, "hard_ttl"),
        (Policy { jitter: 1.0, ..plain() }, "jitter"),
        (Policy { jitter: f64::NAN, ..plain() }, "jitter"),
        (Policy { refresh_ahead: Some(1.0), ..plain() }, "refresh_ahead"),
        (Policy { load_timeout: zero, ..plain() }, "load_timeout"),
        (Policy { load_timeout: Duration::MAX, ..plain() }, "load_timeout"),
        (Policy { queue_timeout: Duration::MAX, ..plain() }, "queue_timeout"),
        (Policy { max_loads_in_flight: 0, ..plain() }, "max_loads_in_flight"),
        (
            Policy { failure_backoff: SECOND, failure_backoff_max: zero, ..plain() },
            "failure_backoff_max",
        ),
    ];
    for (policy, expected) in policies {
        match cache.named::<Boom>("test", policy) {
            Err(ConfigError::Setting { setting, .. }) => assert_eq!(setting, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
    let configs = [
        (CacheConfig { shards: 0, ..CacheConfig::default() }, "shards must be 1 to 1024"),
        (
            CacheConfig { stamp_slots: 0, ..CacheConfig::default() },
            "stamp_slots must be 1 to 4294967296",
        ),
    ];
    for (config, expected) in configs {
        assert_eq!(Cache::new(&config).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_name_is_given_once() {
    let cache = Cache::new(&CacheConfig::default()).unwrap();
    let first = cache.named::<Boom>("tracks", plain()).unwrap();
    let error = cache.named::<Boom>("tracks", plain()).unwrap_err();
    assert_eq!(error.to_string(), "the cache already has a part named \"tracks\"");
    assert_eq!(first.name(), "tracks");
}

#[tokio::test(start_paused = true)]
async fn the_same_key_under_two_names_is_two_entries() {
    let cache = Cache::new(&CacheConfig::default()).unwrap();
    let [tracks, markets] = ["tracks", "markets"].map(|name| Kit::part_of(&cache, name, plain()));
    assert_eq!(tracks.get("1", body("track")).await, "track Miss");
    assert_eq!(markets.get("1", body("market")).await, "market Miss");
    assert_eq!(tracks.hit("1").await, "track Hit");
    assert_eq!(markets.hit("1").await, "market Hit");
}
