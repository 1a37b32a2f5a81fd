//! Stamps: what an entry depends on, and how a write makes entries die.
//!
//! A stamp names a piece of state (`post:17`, `posts:seoul.gangnam:books`). An entry remembers the
//! *version* its stamps had before its loader ran. A write raises the versions when it finishes,
//! and from then on every entry that depends on them is dead, whatever its key: nothing is ever
//! enumerated. A load that began before the write holds the old versions, so what it brings
//! back is dead on arrival; this closes the race known as the late fill, which a "delete the key
//! after commit" cache has by construction.
//!
//! Versions live in a fixed array, found by hash. Two stamps may share a slot: then a write to one
//! also kills the other's entries. That costs a load and is never wrong.
//!
//! ```text
//! slot (64 bits) = version (44 bits) | writes open (20 bits)
//! begin_write    : open + 1
//! finish or drop : version + 1, open − 1, in one atomic step
//! unchanged      : open − 1, when no other write is open, else as finish
//! ```

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most stamps an entry may depend on.
pub const MAX_STAMPS: usize = 4;

/// Low bits of a slot: how many writes are open on it.
const OPEN_BITS: u32 = 20;
const OPEN_MASK: u64 = (1 << OPEN_BITS) - 1;
/// Added on finish: one version up, one open write fewer.
const FINISH: u64 = (1 << OPEN_BITS) - 1;

/// A name for a piece of state, as a 64-bit hash of its text.
///
/// The hash is the same in every process, so that it can name the stamp in a shared tier. A
/// collision is harmless (see the module's text), also a wanted one; the slot is chosen with a
/// seed of the process, so that names cannot be aimed at one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp(u64);

impl Stamp {
    /// The stamp of a name such as `track:17`.
    pub fn new(name: &str) -> Self {
        let mut hash = NameHash::new();
        hash.update(name);
        hash.finish()
    }

    /// The hash, for a message to another process.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The stamp of which another process has told the hash.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The stamp of a formatted name, without building the text:
    /// `Stamp::from_args(format_args!("track:{id}"))` equals `Stamp::new("track:17")` for 17.
    pub fn from_args(name: fmt::Arguments<'_>) -> Self {
        let mut hash = NameHash::new();
        // `NameHash` never fails; a failing `Display` of the caller ends the name early.
        let _ = hash.write_fmt(name);
        hash.finish()
    }
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo; RFC 9923), finished with the mixer of MurmurHash3.
struct NameHash(u64);

impl NameHash {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn update(&mut self, text: &str) {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(self) -> Stamp {
        Stamp(mix(self.0))
    }
}

impl fmt::Write for NameHash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.update(text);
        Ok(())
    }
}

/// `fmix64` of MurmurHash3 (Appleby, 2011): every input bit reaches every output bit.
const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// The versions of all stamps.
#[derive(Debug)]
pub(crate) struct StampTable {
    slots: Box<[AtomicU64]>,
    seed: u64,
}

impl StampTable {
    /// A table of `slots` slots, rounded up to a power of two.
    pub(crate) fn new(slots: usize) -> Self {
        let slots = slots.max(1).next_power_of_two();
        Self { slots: (0..slots).map(|_| AtomicU64::new(0)).collect(), seed: fastrand::u64(..) }
    }

    fn slot_of(&self, stamp: Stamp) -> u32 {
        // The length is a power of two of at most 2^32 (checked by the configuration).
        (mix(stamp.0 ^ self.seed) & (self.slots.len() as u64 - 1)) as u32
    }

    fn load(&self, slot: u32) -> u64 {
        // Acquire: whoever sees a finished write also sees what the writer did before.
        self.slots[slot as usize].load(Ordering::Acquire)
    }

    /// Reads the stamps; to be done before the loader runs. `stamps` holds at most four.
    pub(crate) fn read(&self, stamps: &[Stamp]) -> Marks {
        let mut marks = Marks::default();
        for (n, stamp) in stamps.iter().take(MAX_STAMPS).enumerate() {
            let slot = self.slot_of(*stamp);
            marks.slots[n] = slot;
            marks.versions[n] = self.load(slot) >> OPEN_BITS;
            marks.len += 1;
        }
        marks
    }

    /// Whether no write on these stamps has finished since they were read.
    pub(crate) fn is_current(&self, marks: &Marks) -> bool {
        marks.iter().all(|(slot, version)| self.load(slot) >> OPEN_BITS == version)
    }

    /// Whether what was loaded under these marks may be stored: no write has finished since, and
    /// none is open. (A write that was open when the load began is either still open, or has
    /// finished since.)
    pub(crate) fn may_store(&self, marks: &Marks) -> bool {
        marks.iter().all(|(slot, version)| self.load(slot) == version << OPEN_BITS)
    }

    /// Raises a version: what depends on it, and all loads of it in flight, are outdated.
    pub(crate) fn raise(&self, stamp: Stamp) {
        let slot = self.slot_of(stamp);
        self.slots[slot as usize].fetch_add(1 << OPEN_BITS, Ordering::AcqRel);
    }

    /// Raises every version: all entries and all loads in flight are outdated.
    pub(crate) fn raise_all(&self) {
        for slot in &self.slots {
            slot.fetch_add(1 << OPEN_BITS, Ordering::AcqRel);
        }
    }

    fn open(&self, slot: u32) -> Result<(), WriteError> {
        self.slots[slot as usize]
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
                (state & OPEN_MASK != OPEN_MASK).then(|| state + 1)
            })
            .map(drop)
            .map_err(|_| WriteError::TooManyOpen { limit: OPEN_MASK })
    }

    fn close(&self, slot: u32) {
        self.slots[slot as usize].fetch_sub(1, Ordering::AcqRel);
    }

    /// Closes a write that has changed nothing; with another one open, as if it had.
    fn close_unchanged(&self, slot: u32) {
        let step = |state: u64| {
            let alone = state & OPEN_MASK == 1;
            Some(if alone { state - 1 } else { state.wrapping_add(FINISH) })
        };
        // Never refused: the step is always something.
        let _ = self.slots[slot as usize].fetch_update(Ordering::AcqRel, Ordering::Acquire, step);
    }

    fn finish(&self, slot: u32) {
        self.slots[slot as usize].fetch_add(FINISH, Ordering::AcqRel);
    }
}

/// The versions a set of stamps had at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    versions: [u64; MAX_STAMPS],
    slots: [u32; MAX_STAMPS],
    len: u8,
}

impl Marks {
    fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.slots.iter().copied().zip(self.versions.iter().copied()).take(usize::from(self.len))
    }
}

/// A write could not be announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages and names say it")]
pub enum WriteError {
    /// More writes are open on one stamp than a slot can count.
    #[error("more than {limit} writes are open on one stamp")]
    TooManyOpen { limit: u64 },
}

/// An announced write.
///
/// Take it before the transaction, [`finish`](Write::finish) it after the commit and before
/// anybody is told of it. While it is open, entries that were there before are still served (the
/// write is not acknowledged yet) and no load stores its result. Dropped without `finish`
/// (a panic, an early return, an outcome nobody knows), it kills the entries as well: a needless
/// load is cheaper than a wrong answer.
#[derive(Debug)]
#[must_use = "a write that is dropped at once protects nothing"]
pub struct Write {
    table: Arc<StampTable>,
    slots: Box<[u32]>,
}

impl Write {
    pub(crate) fn begin(table: &Arc<StampTable>, stamps: &[Stamp]) -> Result<Self, WriteError> {
        // A slot named twice is opened twice and finished twice.
        let slots: Box<[u32]> = stamps.iter().map(|stamp| table.slot_of(*stamp)).collect();
        for (n, slot) in slots.iter().enumerate() {
            if let Err(error) = table.open(*slot) {
                slots[..n].iter().for_each(|opened| table.close(*opened));
                return Err(error);
            }
        }
        Ok(Self { table: Arc::clone(table), slots })
    }

    /// Kills every entry that depends on the stamps, and vetoes every load that began before now.
    ///
    /// When it returns, whoever asks is given the state after the write, or a later one.
    ///
    /// # Errors
    /// None in the in-process tier. A tier over the network can fail here; the entries of this
    /// process are dead nevertheless.
    #[expect(clippy::unused_async, reason = "a tier over the network awaits here")]
    pub async fn finish(self) -> Result<(), WriteError> {
        drop(self);
        Ok(())
    }

    /// Ends a write that changed nothing: refused, or found done already. Every entry lives on; so
    /// whoever may ask for a write but not do it cannot empty the cache.
    ///
    /// Only for a transaction that is known not to have changed anything behind the stamps. Loads
    /// that ran meanwhile saw the state as it was and still is, and may be stored.
    ///
    /// While another write is open on a stamp, it ends as [`finish`](Self::finish) does: what it has found
    /// done may have been done by that one, which is committed and has not finished yet. Whoever is told
    /// of it now must not be given what was before.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    #[expect(clippy::unused_async, reason = "a tier over the network awaits here")]
    pub async fn unchanged(mut self) -> Result<(), WriteError> {
        for slot in std::mem::take(&mut self.slots) {
            self.table.close_unchanged(slot);
        }
        Ok(())
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        for slot in &self.slots {
            self.table.finish(*slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formatted_name_is_the_same_stamp_as_its_text() {
        let id = 17;
        assert_eq!(Stamp::from_args(format_args!("track:{id}")), Stamp::new("track:17"));
        assert_ne!(Stamp::new("track:17"), Stamp::new("track:18"));
    }

    #[test]
    fn the_hash_of_a_name_is_the_same_in_every_process() {
        // FNV-1a of the empty text is the offset basis; the mixed value was worked out apart.
        assert_eq!(Stamp::new("").0, mix(0xcbf2_9ce4_8422_2325));
        let mut one_byte = 0xcbf2_9ce4_8422_2325_u64 ^ u64::from(b'a');
        one_byte = one_byte.wrapping_mul(1_099_511_628_211);
        assert_eq!(Stamp::new("a").0, mix(one_byte));
    }

    #[test]
    fn nobody_outside_can_aim_names_at_one_slot() {
        let slots_of = |table: &StampTable| -> Vec<u32> {
            (0..64).map(|n| table.slot_of(Stamp::from_args(format_args!("{n}")))).collect()
        };
        assert_ne!(slots_of(&StampTable::new(64)), slots_of(&StampTable::new(64)));
    }

    #[test]
    fn a_write_vetoes_loads_begun_before_and_during_it() {
        let table = Arc::new(StampTable::new(64));
        let stamps = [Stamp::new("a")];
        let before = table.read(&stamps);
        assert!(table.may_store(&before));
        let write = Write::begin(&table, &stamps).unwrap();
        let during = table.read(&stamps);
        assert!(!table.may_store(&before) && !table.may_store(&during));
        assert!(table.is_current(&before), "an open write does not yet kill");
        drop(write);
        assert!(!table.may_store(&before) && !table.may_store(&during));
        assert!(!table.is_current(&before));
        assert!(table.may_store(&table.read(&stamps)));
    }

    #[test]
    fn the_last_of_several_writes_decides() {
        let table = Arc::new(StampTable::new(64));
        let stamps = [Stamp::new("a"), Stamp::new("a")];
        let first = Write::begin(&table, &stamps).unwrap();
        let second = Write::begin(&table, &stamps).unwrap();
        drop(first);
        let between = table.read(&stamps[..1]);
        drop(second);
        assert!(!table.may_store(&between));
        assert!(table.may_store(&table.read(&stamps[..1])));
    }

    #[test]
    fn too_many_open_writes_are_refused_and_leave_nothing_open() {
        let table = Arc::new(StampTable::new(1));
        table.slots[0].store(OPEN_MASK, Ordering::Relaxed);
        let refused = Write::begin(&table, &[Stamp::new("a")]).unwrap_err();
        assert_eq!(refused, WriteError::TooManyOpen { limit: OPEN_MASK });
        assert_eq!(table.load(0), OPEN_MASK);

        let table = Arc::new(StampTable::new(64));
        let free = Stamp::new("a");
        // The slots are chosen with a random seed, so a fixed second name shares one in 64 runs.
        let full = (0..)
            .map(|n| Stamp::from_args(format_args!("b{n}")))
            .find(|other| table.slot_of(*other) != table.slot_of(free))
            .expect("64 slots are not all the same");
        table.slots[table.slot_of(full) as usize].store(OPEN_MASK, Ordering::Relaxed);
        Write::begin(&table, &[free, full]).unwrap_err();
        assert_eq!(table.load(table.slot_of(free)) & OPEN_MASK, 0);
    }
}
