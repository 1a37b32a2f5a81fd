//! Changes since an earlier backup.

use super::chain::{BLOCK, CHUNK, Chain, fill};
use super::manifest::CHANGES;
use super::pace::Pace;
use super::{BackupError, FILE};
use crate::store::private;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::Path;

/// Writes the blocks of the store in `dir` that differ from those of an earlier backup, each after its number
/// (8 bytes, little-endian). All of the earlier one is read and checked, so that nothing builds on a damaged one.
pub(super) fn write(mut earlier: Chain<'_, '_>, dir: &Path) -> Result<(), BackupError> {
    let (store, to) = (dir.join(FILE), dir.join(CHANGES));
    let from = File::open(&store).map_err(BackupError::at(&store))?;
    let mut from = BufReader::with_capacity(CHUNK, from);
    let file = private::open(&to).map_err(BackupError::at(&to))?;
    let mut out = BufWriter::with_capacity(CHUNK, file);
    let mut block = vec![0; BLOCK];
    let mut pace = Pace::new();
    for at in 0_u64.. {
        if at % 32 == 0 {
            pace.step();
        }
        let read = fill(&mut from, &mut block).map_err(BackupError::at(&store))?;
        let before = earlier.next()?;
        if read == 0 && before.is_none() {
            break;
        }
        let block = &block[..read];
        if read > 0 && before != Some(block) {
            let written = out.write_all(&at.to_le_bytes()).and_then(|()| out.write_all(block));
            written.map_err(BackupError::at(&to))?;
        }
    }
    out.flush().map_err(BackupError::at(&to))?;
    earlier.finish(None)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::archive;
    use super::super::chain::{Archives, LONGEST_CHAIN};
    use super::super::manifest::Manifest;
    use super::*;
    use proptest::prelude::*;
    use std::path::PathBuf;
    use time::OffsetDateTime;

    /// A chain of backups of files that need not be stores.
    struct Backups {
        dir: tempfile::TempDir,
        count: usize,
    }

    impl Backups {
        fn new() -> Self {
            Self { dir: tempfile::tempdir().unwrap(), count: 0 }
        }

        fn path(&self, number: usize) -> PathBuf {
            self.dir.path().join(format!("{number}.tar.zst"))
        }

        /// Backs up this store, after the first time incrementally.
        fn take(&mut self, store: &[u8]) -> Result<Manifest, BackupError> {
            let work = tempfile::tempdir().unwrap();
            let mut manifest = manifest(work.path(), store);
            if self.count > 0 {
                let mut archives = Archives::default();
                let (name, earlier) = Chain::earlier(&mut archives, &self.path(self.count - 1))?;
                let before = earlier.manifest().clone();
                write(earlier, work.path())?;
                archives.finish()?;
                manifest = manifest.incremental(work.path(), name, &before)?;
            }
            self.pack(self.count, work.path(), &manifest);
            self.count += 1;
            Ok(manifest)
        }

        fn pack(&self, number: usize, work: &Path, manifest: &Manifest) {
            let out = File::create(self.path(number)).unwrap();
            archive::write(work, manifest, out, |_, _| {}).unwrap();
        }

        fn restored(&self, number: usize) -> Result<Vec<u8>, BackupError> {
            let to = tempfile::tempdir().unwrap();
            let from = File::open(self.path(number)).unwrap();
            archive::read(from, Some(self.dir.path()), to.path(), |_| Ok(()), |_, _| {})?;
            Ok(std::fs::read(to.path().join(FILE)).unwrap())
        }
    }

    /// Writes a store into a directory. Returns the manifest of a full backup.
    fn manifest(work: &Path, store: &[u8]) -> Manifest {
        std::fs::write(work.join(FILE), store).unwrap();
        Manifest::of(work, &[FILE], OffsetDateTime::UNIX_EPOCH, 1, "sqlite").unwrap()
    }

    /// Changes of a store between two backups: written blocks, and its new length.
    fn change() -> impl Strategy<Value = (Vec<(usize, u8)>, usize)> {
        let length = prop_oneof![3 => (0..9_usize).prop_map(|n| n * BLOCK), 1 => 0..9 * BLOCK];
        (prop::collection::vec((0..9_usize, any::<u8>()), 0..4), length)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn each_backup_of_a_chain_is_the_store_that_was(changes in prop::collection::vec(change(), 1..6)) {
            let (mut backups, mut stores) = (Backups::new(), vec![Vec::new()]);
            backups.take(&stores[0]).unwrap();
            for (writes, length) in changes {
                let before = stores.last().unwrap();
                let mut store = before.clone();
                store.resize(length, 0);
                for (at, byte) in writes {
                    if let Some(there) = store.get_mut(at * BLOCK) {
                        *there = byte;
                    }
                }
                let manifest = backups.take(&store).unwrap();
                // Exactly the blocks that differ, each after its number.
                let differ = store.chunks(BLOCK).enumerate().filter(|(at, block)| {
                    before.chunks(BLOCK).nth(*at) != Some(block)
                });
                let expected: usize = differ.map(|(_, block)| 8 + block.len()).sum();
                prop_assert_eq!(manifest.files[0].bytes, expected as u64);
                stores.push(store);
            }
            for (number, store) in stores.iter().enumerate() {
                prop_assert!(&backups.restored(number).unwrap() == store, "backup {}", number);
            }
        }
    }

    #[test]
    fn a_chain_ends_where_it_can_still_be_restored() {
        let mut backups = Backups::new();
        for number in 0..LONGEST_CHAIN {
            backups.take(&vec![number as u8; 2 * BLOCK]).unwrap();
        }
        let refused = backups.take(b"one more").unwrap_err();
        assert!(refused.to_string().contains("take a full backup"), "{refused}");
        assert_eq!(backups.restored(LONGEST_CHAIN - 1).unwrap(), vec![31; 2 * BLOCK]);
        // One that builds on itself has no end.
        std::fs::copy(backups.path(1), backups.path(0)).unwrap();
        let refused = backups.restored(2).unwrap_err();
        assert!(matches!(refused, BackupError::Refused(_) | BackupError::Damaged(_)), "{refused}");
    }

    #[test]
    fn made_up_blocks_are_refused() {
        let mut backups = Backups::new();
        backups.take(&[1; 3 * BLOCK]).unwrap();
        let work = tempfile::tempdir().unwrap();
        let record = |at: u64, length: usize| [&at.to_le_bytes()[..], &vec![2; length]].concat();
        let made_up = [
            ("twice", [record(1, BLOCK), record(1, BLOCK)].concat()),
            ("backwards", [record(2, BLOCK), record(0, BLOCK)].concat()),
            ("after the end", record(3, BLOCK)),
            ("none", record(u64::MAX, BLOCK)),
            ("too short", record(1, BLOCK - 1)),
            ("half a number", [record(1, BLOCK), vec![2; 3]].concat()),
            ("another block", record(1, BLOCK)),
        ];
        for (what, changes) in made_up {
            let before = manifest(work.path(), &[1; 3 * BLOCK]);
            std::fs::write(work.path().join(CHANGES), changes).unwrap();
            let name = "0.tar.zst".to_owned();
            let manifest = before.clone().incremental(work.path(), name, &before).unwrap();
            backups.pack(1, work.path(), &manifest);
            let restored = backups.restored(1);
            assert!(matches!(restored, Err(BackupError::Damaged(_))), "{what}: {restored:?}");
        }
    }
}
