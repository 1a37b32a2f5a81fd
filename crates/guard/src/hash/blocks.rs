//! Memory of argon2id in pages directly from the operating system.
//!
//! An allocator keeps freed memory for later allocations. With mimalloc that was 19 MiB of each hashing thread, a
//! third of the memory of a server that may have nothing to hash for hours.
#![expect(unsafe_code, reason = "the system's call takes and gives addresses")]

use std::mem::size_of;
use std::ptr::{NonNull, null_mut};

use argon2::Block;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Blocks of 1 KiB owned by this value.
pub(super) struct Blocks {
    start: NonNull<Block>,
    pub(super) count: usize,
}

// SAFETY: The pages belong to this value, as those of a `Vec` do, and to no thread.
unsafe impl Send for Blocks {}

impl Blocks {
    /// `count` blocks of zeros; `None` if the system refuses the memory.
    pub(super) fn map(count: usize) -> Option<Self> {
        let length = count.checked_mul(size_of::<Block>())?;
        // SAFETY: The system chooses an unused address.
        let start = unsafe {
            mmap_anonymous(
                null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        };
        Some(Self { start: NonNull::new(start.ok()?)?.cast(), count })
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [Block] {
        // SAFETY: `count` blocks were mapped, aligned to a page, and nothing else has their address. A block is 128
        // integers, for which all bytes are valid.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.count) }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        // SAFETY: Exactly this range was mapped, and slices of it borrow this value.
        let unmapped =
            unsafe { munmap(self.start.as_ptr().cast(), self.count * size_of::<Block>()) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Virtual memory of this process in KiB.
    fn virtual_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn blocks_are_zero_distinct_and_given_back() {
        const COUNT: usize = 1 << 18; // KiB
        const ROUNDS: u64 = 100;
        let before = virtual_kib();
        for _ in 0..ROUNDS {
            let mut blocks = Blocks::map(COUNT).unwrap();
            let slice = blocks.as_mut_slice();
            assert_eq!(slice.len(), COUNT);
            assert!(slice[0].as_ref().iter().all(|word| *word == 0));
            slice[0].as_mut().fill(1);
            slice[1].as_mut().fill(2);
            assert!(slice[0].as_ref().iter().all(|word| *word == 1));
        }
        // Other tests may map memory meanwhile.
        assert!(virtual_kib() < before + ROUNDS / 2 * COUNT as u64);
    }

    #[test]
    fn what_the_system_does_not_have_is_refused() {
        assert!(Blocks::map(usize::MAX).is_none());
        assert!(Blocks::map(1 << 50).is_none());
    }
}
