//! Stamps (invalidation tags): an entry depends on some, and a write invalidates them.
//!
//! A stamp names a piece of state (`post:17`, `posts:seoul.gangnam:books`). An entry keeps the *versions* that its
//! stamps had before its loader ran. A writer raises the versions after its commit, and from then on every entry that
//! depends on them is dead, whatever its key: nothing is ever enumerated. A load that began before the write has the
//! old versions, so its result is dead on arrival. This closes the race known as the late fill, which a "delete the
//! key after commit" cache has by construction.
//!
//! Versions live in a fixed array, found by hash. Two stamps may share a slot: then a write to one also invalidates
//! the other's entries. That costs a load and is never wrong.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};

/// Most stamps an entry may depend on.
pub const MAX_STAMPS: usize = 4;

/// A name for a piece of state, as a 64-bit hash of its text.
///
/// The hash is the same in every process, so that it can name the stamp in a shared tier. A
/// collision is harmless (see the module's text), also an intended one; the slot is chosen with a
/// seed of the process, so that names cannot be aimed at one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp(u64);

impl Stamp {
    /// The stamp of a name such as `track:17`.
    pub fn new(name: &str) -> Self {
        let mut hash = NameHash(OFFSET);
        // It never fails.
        let _ = hash.write_str(name);
        Self(mix(hash.0))
    }

    /// The hash, for a message to another process.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The stamp with a hash from another process.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The stamp of a formatted name, without building the text:
    /// `Stamp::from_args(format_args!("track:{id}"))` equals `Stamp::new("track:17")` for 17.
    pub fn from_args(name: fmt::Arguments<'_>) -> Self {
        let mut hash = NameHash(OFFSET);
        // `NameHash` never fails; a failing `Display` of the caller ends the name early.
        let _ = hash.write_fmt(name);
        Self(mix(hash.0))
    }
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo; RFC 9923), finished with the mixer of MurmurHash3.
struct NameHash(u64);

/// Offset basis of FNV-1a.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

impl fmt::Write for NameHash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
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
        // The length is a power of two, at most 2^32 (checked by the configuration).
        (mix(stamp.0 ^ self.seed) & (self.slots.len() as u64 - 1)) as u32
    }

    fn load(&self, slot: u32) -> u64 {
        // Acquire: a reader of a raised version also sees all that the writer did before.
        self.slots[slot as usize].load(Ordering::Acquire)
    }

    /// Reads the versions of up to four stamps, before the loader runs.
    pub(crate) fn read(&self, stamps: &[Stamp]) -> Marks {
        let mut marks = Marks::default();
        for (n, stamp) in stamps.iter().take(MAX_STAMPS).enumerate() {
            let slot = self.slot_of(*stamp);
            marks.slots[n] = slot;
            marks.versions[n] = self.load(slot);
            marks.len += 1;
        }
        marks
    }

    /// True if no version was raised since these were read: values loaded since may be stored and served.
    pub(crate) fn is_current(&self, marks: &Marks) -> bool {
        marks.iter().all(|(slot, version)| self.load(slot) == version)
    }

    /// Raises a version: entries that depend on it, and their loads in flight, are outdated.
    pub(crate) fn raise(&self, stamp: Stamp) {
        let slot = self.slot_of(stamp);
        self.slots[slot as usize].fetch_add(1, Ordering::AcqRel);
    }

    /// Raises every version: all entries and all loads in flight are outdated.
    pub(crate) fn raise_all(&self) {
        for slot in &self.slots {
            slot.fetch_add(1, Ordering::AcqRel);
        }
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
    fn a_raised_version_outdates_what_was_read_before() {
        let table = StampTable::new(64);
        let stamps = [Stamp::new("a")];
        let before = table.read(&stamps);
        assert!(table.is_current(&before));
        table.raise(stamps[0]);
        assert!(!table.is_current(&before));
        assert!(table.is_current(&table.read(&stamps)));
        let before = table.read(&stamps);
        table.raise_all();
        assert!(!table.is_current(&before));
    }
}
