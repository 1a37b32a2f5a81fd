//! Stored data, of this program, another version of it, or anybody else.

use crate::articles::likes::record;
use crate::config::{Origin, Sources};
use crate::store::Effects;
use crate::store::backup::{BackupError, archive, manifest::Manifest};
use crate::store::copy::key;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) fn settings(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut sources = Sources::new();
    if sources.text(Path::new("madang.toml"), text).is_err() {
        return;
    }
    let Ok(settings) = sources.resolve() else { return };
    // Set again from another source, the values mean the same.
    let mut again = Sources::new();
    for key in crate::config::KEYS.iter() {
        let (value, _) = sources.effective(key);
        again.set(key.name, value, Origin::Flag("--set".to_owned())).expect("a key that there is");
    }
    let again = again.resolve().expect("values that were taken");
    assert_eq!(format!("{again:?}"), format!("{settings:?}"));
}

pub(super) fn like_log(data: &[u8]) {
    let Ok(pairs) = record::read(data) else { return };
    assert!(pairs.len() <= data.len() / 2);
    let written = record::read(&record::write(&pairs)).expect("what is written can be read");
    let sorted = |pairs: &[_]| -> BTreeMap<_, usize> {
        pairs.iter().fold(BTreeMap::new(), |mut counts, pair| {
            *counts.entry(*pair).or_default() += 1;
            counts
        })
    };
    assert_eq!(sorted(&written), sorted(&pairs));
}

pub(super) fn outbox(data: &[u8]) {
    let Ok(effects) = Effects::decode(data) else { return };
    let written = effects.encode();
    let again = Effects::decode(&written).expect("what is written can be read");
    assert_eq!(again.encode(), written);
}

/// The manifest of a backup; its archive, packed and as it is.
pub(super) fn archives(data: &[u8]) {
    /// Maximum number of bytes written to disk.
    const MOST: u64 = 1 << 20;
    static MADE: AtomicU32 = AtomicU32::new(0);
    if let Ok(manifest) = Manifest::parse(data) {
        let text = serde_json::to_vec(&manifest).expect("numbers and texts");
        assert_eq!(Manifest::parse(&text).ok(), Some(manifest));
    }
    let packed = zstd::encode_all(data, 1).expect("bytes in memory");
    for bytes in [&packed[..], data] {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("madang-fuzz-{}-{number}", std::process::id()));
        let accept = |manifest: &Manifest| {
            if manifest.bytes() > MOST {
                return Err(BackupError::Refused("too large".to_owned()));
            }
            std::fs::create_dir(&dir).map_err(|error| BackupError::Refused(error.to_string()))
        };
        let read = archive::read(bytes, None, &dir, accept, |_, _| {});
        if let Ok(manifest) = &read {
            for file in &manifest.files {
                let found =
                    std::fs::metadata(dir.join(&file.name)).expect("a file of the manifest");
                assert_eq!(found.len(), file.bytes);
            }
        }
        let _ = std::fs::remove_dir_all(&dir);
    }
}

/// The key of a row, as it is kept beside the progress of a copy.
pub(super) fn copy_keys(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(parts) = key::decode(text) {
        let written = key::encode(&parts);
        let again = key::decode(&written).expect("what is written can be read");
        assert_eq!(key::encode(&again), written);
    }
}
