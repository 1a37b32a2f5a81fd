//! Any sequence of operations against a model of what may be served, and the byte budget.

use std::collections::HashMap;
use std::sync::Arc;

use madang_cache::{CacheConfig, Loaded, ManualClock, Policy, Served, entry_weight};
use proptest::prelude::*;

use crate::kit::{Boom, Kit, SECOND, body, plain, served, text_of, value};

const SOFT: u64 = 60;
const HARD: u64 = 180;
const KEYS: u8 = 12;

#[derive(Clone, Debug)]
enum Op {
    /// Look up with a loader that returns a body of this length.
    Get(u8, usize),
    /// Look up with a loader that fails.
    Fail(u8),
    /// Look up with a loader that finds nothing.
    Absent(u8),
    Write(u8),
    Advance(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => (0..KEYS, 0..3000_usize).prop_map(|(key, len)| Op::Get(key, len)),
        2 => (0..KEYS).prop_map(Op::Fail),
        1 => (0..KEYS).prop_map(Op::Absent),
        2 => (0..KEYS).prop_map(Op::Write),
        2 => (1..100_u64).prop_map(Op::Advance),
    ];
    prop::collection::vec(op, 1..120)
}

/// The last stored value of a key, and its time in seconds.
struct Stored {
    text: Option<String>,
    at: u64,
}

struct Model {
    kit: Kit,
    clock: Arc<ManualClock>,
    capacity: u64,
    now: u64,
    serial: usize,
    stored: HashMap<u8, Stored>,
}

impl Model {
    fn new(capacity: u64, shards: usize) -> Self {
        let config = CacheConfig { shards, ..CacheConfig::with_capacity(capacity) };
        let policy = Policy { hard_ttl: HARD as u32 * SECOND, ..plain() };
        let (kit, clock) = Kit::with_manual_clock(&config, policy);
        Self { kit, clock, capacity, now: 0, serial: 0, stored: HashMap::new() }
    }

    async fn step(&mut self, op: &Op) {
        match *op {
            Op::Get(key, len) => {
                self.serial += 1;
                let text = format!("{}:{}", self.serial, "x".repeat(len));
                let fits = entry_weight(&key.to_string(), Some(&value(&text))) <= self.capacity;
                self.look_up(key, body(&text), Some(text), fits).await;
            }
            Op::Absent(key) => self.look_up(key, Ok(Loaded::Absent), None, true).await,
            Op::Fail(key) => {
                let got = self.kit.get_with(&key.to_string(), || async { Err(Boom(1)) }).await;
                if let Ok(lookup) = got {
                    let text = lookup.value.as_ref().map(text_of);
                    self.check(key, text.as_ref(), lookup.served);
                }
            }
            Op::Write(key) => {
                self.kit.write(&key.to_string());
                self.stored.remove(&key);
            }
            Op::Advance(seconds) => {
                self.clock.advance(seconds as u32 * SECOND);
                self.now += seconds;
            }
        }
        self.check_budget();
    }

    async fn look_up(
        &mut self,
        key: u8,
        answer: Result<Loaded, Boom>,
        text: Option<String>,
        fits: bool,
    ) {
        let got = self.kit.get_with(&key.to_string(), || async { answer }).await.unwrap();
        let given = got.value.as_ref().map(text_of);
        if got.served != Served::Miss {
            return self.check(key, given.as_ref(), got.served);
        }
        assert_eq!(given, text, "a miss is given what its loader brought");
        self.stored.remove(&key);
        if fits {
            self.stored.insert(key, Stored { text, at: self.now });
        }
    }

    /// Eviction may remove anything at any time; a served value must be the last stored one.
    fn check(&self, key: u8, given: Option<&String>, served: Served) {
        let stored = self.stored.get(&key).expect("nothing was stored under this key");
        assert_eq!(given, stored.text.as_ref());
        let (age, negative) = (self.now - stored.at, stored.text.is_none());
        match served {
            Served::Hit if negative => assert!(age < 5),
            Served::Hit => assert!(age < SOFT),
            Served::Stale => assert!(!negative && (SOFT..HARD).contains(&age)),
            other => panic!("{other:?} without anybody else"),
        }
    }

    fn check_budget(&self) {
        let metrics = self.kit.metrics();
        assert!(self.kit.cache.used_bytes() <= self.capacity);
        assert_eq!(self.kit.cache.used_bytes(), metrics.bytes);
        assert!(metrics.entries <= u64::from(KEYS));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn only_the_last_stored_value_is_served_and_the_budget_holds(
        ops in ops(),
        capacity in 0..20_000_u64,
        shards in 1..5_usize,
    ) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut model = Model::new(capacity, shards);
            for op in &ops {
                model.step(op).await;
            }
        });
    }
}

/// The other half of the property: with room for all, nothing is lost.
#[tokio::test(start_paused = true)]
async fn with_room_for_all_nothing_is_driven_out() {
    let keys: Vec<String> = (0..1000).map(|n| format!("{n:04}")).collect();
    let weight = entry_weight("0000", Some(&value("v")));
    let kit = Kit::with_config(&CacheConfig::with_capacity(1000 * weight));
    for key in &keys {
        kit.get(key, body("v")).await;
    }
    for key in &keys {
        assert_eq!(kit.hit(key).await, "v Hit");
    }
    assert_eq!(kit.cache.used_bytes(), kit.cache.capacity_bytes());
    kit.get("more", body("v")).await;
    let alive = keys.iter().filter(|key| kit.named.peek_fresh(key).is_some()).count();
    assert_eq!((alive, kit.metrics().evictions), (999, 1));
}

#[tokio::test(start_paused = true)]
async fn one_entry_may_take_more_than_a_shards_share() {
    let kit = Kit::with_config(&CacheConfig { shards: 16, ..CacheConfig::with_capacity(40_000) });
    for n in 0..100 {
        kit.get(&n.to_string(), body("v")).await;
    }
    let long = "x".repeat(8_000);
    kit.get("long", body(&long)).await;
    assert_eq!(kit.peek("long"), Some(long));
    assert!(kit.metrics().evictions > 0);
    assert!(kit.cache.used_bytes() <= 40_000);
    assert_eq!(served(&kit.get_with("long", || async { body("v") }).await), Served::Hit);
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_outlives_what_is_not() {
    let weight = entry_weight("0000", Some(&value("v")));
    let kit =
        Kit::with_config(&CacheConfig { shards: 1, ..CacheConfig::with_capacity(10 * weight) });
    kit.get("hot!", body("v")).await;
    for n in 0..100 {
        assert_eq!(kit.peek("hot!").as_deref(), Some("v"), "after {n} others");
        kit.get(&format!("{n:04}"), body("v")).await;
    }
}
