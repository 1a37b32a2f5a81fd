//! The shard against SIEVE written down plainly, after Algorithm 1 of the paper.

use proptest::prelude::*;

use super::*;

/// Newest first, as in the paper's figures; the hand is an index that counts from the newest.
#[derive(Default)]
struct PlainSieve {
    queue: Vec<(u64, bool)>,
    hand: Option<usize>,
}

impl PlainSieve {
    fn insert(&mut self, key: u64) {
        if self.queue.iter().all(|(there, _)| *there != key) {
            self.queue.insert(0, (key, false));
            self.hand = self.hand.map(|hand| hand + 1);
        }
    }

    fn visit(&mut self, key: u64) {
        if let Some(entry) = self.queue.iter_mut().find(|(there, _)| *there == key) {
            entry.1 = true;
        }
    }

    fn evict(&mut self) -> Option<u64> {
        let mut at = self.hand.or(self.queue.len().checked_sub(1))?;
        while self.queue[at].1 {
            self.queue[at].1 = false;
            at = at.checked_sub(1).unwrap_or(self.queue.len() - 1);
        }
        let (key, _) = self.queue.remove(at);
        self.hand = at.checked_sub(1);
        Some(key)
    }

    fn remove(&mut self, key: u64) {
        let Some(at) = self.queue.iter().position(|(there, _)| *there == key) else { return };
        self.queue.remove(at);
        self.hand = match self.hand {
            Some(hand) if hand >= at => hand.checked_sub(1),
            hand => hand,
        };
    }
}

fn name() -> Arc<Name> {
    Arc::new(Name { id: 0, name: "test".into(), metrics: Metrics::default() })
}

fn entry(hash: u64, name: &Arc<Name>) -> Entry {
    Entry {
        hash,
        name: Arc::clone(name),
        key: hash.to_string().into(),
        value: None,
        marks: Marks::default(),
        soft_expiry: 0,
        hard_expiry: 0,
        refresh_at: AtomicU64::new(0),
        weight: 1,
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u64),
    Visit(u64),
    Evict,
    Remove(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (0..20_u64).prop_map(Op::Insert),
        4 => (0..20_u64).prop_map(Op::Visit),
        3 => Just(Op::Evict),
        1 => (0..20_u64).prop_map(Op::Remove),
    ];
    prop::collection::vec(op, 1..200)
}

proptest! {
    #[test]
    fn the_shard_evicts_as_sieve_does(ops in ops()) {
        let name = name();
        let (mut shard, mut plain) = (Shard::new(), PlainSieve::default());
        let slot = |shard: &Shard, key: u64| {
            shard.find(key, &name, &key.to_string()).map(|(slot, _)| slot)
        };
        for op in ops {
            match op {
                Op::Insert(key) => {
                    shard.insert(entry(key, &name));
                    plain.insert(key);
                }
                Op::Visit(key) => {
                    if let Some(slot) = slot(&shard, key) {
                        shard.visit(slot);
                    }
                    plain.visit(key);
                }
                Op::Evict => {
                    let evicted = shard.evict(|_| false).map(|entry| entry.hash);
                    prop_assert_eq!(evicted, plain.evict());
                }
                Op::Remove(key) => {
                    if let Some(slot) = slot(&shard, key) {
                        shard.remove(slot);
                    }
                    plain.remove(key);
                }
            }
            prop_assert_eq!(shard.map.len(), plain.queue.len());
        }
        let mut left: Vec<u64> = shard.clear().iter().map(|entry| entry.hash).collect();
        left.sort_unstable();
        let mut expected: Vec<u64> = plain.queue.iter().map(|(key, _)| *key).collect();
        expected.sort_unstable();
        prop_assert_eq!(left, expected);
    }
}

#[test]
fn a_dead_entry_leaves_though_it_was_visited() {
    let name = name();
    let mut shard = Shard::new();
    for key in 0..3 {
        shard.insert(entry(key, &name));
        let slot = shard.find(key, &name, &key.to_string()).map(|(slot, _)| slot);
        shard.visit(slot.unwrap());
    }
    assert_eq!(shard.evict(|entry| entry.hash == 1).map(|entry| entry.hash), Some(1));
}

#[test]
fn slots_are_used_again() {
    let name = name();
    let mut shard = Shard::new();
    for key in 0..1000 {
        shard.insert(entry(key, &name));
        if key >= 10 {
            shard.evict(|_| false);
        }
    }
    assert_eq!(shard.slots.len(), 11);
}

#[test]
fn of_two_keys_with_one_hash_the_later_takes_the_place() {
    let name = name();
    let mut shard = Shard::new();
    shard.insert(entry(7, &name));
    let other = Entry { key: "other".into(), ..entry(7, &name) };
    assert_eq!(shard.insert(other).map(|replaced| replaced.key), Some("7".into()));
    assert!(shard.find(7, &name, "7").is_none());
    assert!(shard.find(7, &name, "other").is_some());
}
