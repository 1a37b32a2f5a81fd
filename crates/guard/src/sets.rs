//! Memory of fixed size: sets of eight entries, found by a keyed hash, behind 64 locks.

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

/// Entries of a set.
pub(crate) const WAYS: usize = 8;
/// Locks; power of two.
const SHARDS: usize = 64;

pub(crate) struct Sets<S>(Box<[Mutex<Box<[S]>>]>);

impl<S: Default> Sets<S> {
    /// Room for `entries`, rounded up.
    pub(crate) fn new(entries: usize) -> Self {
        let sets = entries.div_ceil(WAYS).next_power_of_two();
        let shards = sets.min(SHARDS);
        let shard = || Mutex::new((0..sets / shards).map(|_| S::default()).collect());
        Self((0..shards).map(|_| shard()).collect())
    }

    pub(crate) fn lock(&self, hash: u64) -> MappedMutexGuard<'_, S> {
        let shards = self.0.len() as u64;
        MutexGuard::map(self.0[(hash % shards) as usize].lock(), |sets| {
            let within = hash / shards % sets.len() as u64;
            &mut sets[within as usize]
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len() * self.0[0].lock().len()
    }
}
