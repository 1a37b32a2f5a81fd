//! Files of every schema version of both engines, and the check of an upgrade.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

/// Rows of all tables, by column.
pub(super) type Rows<V> = BTreeMap<String, Vec<BTreeMap<String, V>>>;

/// Content of a fixture such as `sqlite/fixtures/0001.db`. With `BLESS=1` a missing one is made first.
pub(super) fn unpack(name: &str, make: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/store/{name}.zst"));
    if std::env::var_os("BLESS").is_some() && !path.exists() {
        std::fs::write(&path, zstd::encode_all(&make()[..], 19).unwrap()).unwrap();
    }
    let packed = std::fs::read(&path)
        .unwrap_or_else(|_| panic!("{} is missing: see the head of the test", path.display()));
    zstd::decode_all(&packed[..]).unwrap()
}

/// Asserts that every table of a version has rows, and that the upgrade keeps them, except in tables that it changes.
pub(super) fn assert_kept<V: PartialEq + Debug>(
    version: usize,
    before: &Rows<V>,
    after: &Rows<V>,
    changed: &[&str],
) {
    for (table, rows) in before {
        assert!(!rows.is_empty(), "version {version}: the fixture has no row in {table}");
        if changed.contains(&table.as_str()) {
            continue;
        }
        assert_eq!(after[table].len(), rows.len(), "version {version}: {table}");
        for (before, after) in rows.iter().zip(&after[table]) {
            for (column, value) in before {
                assert_eq!(&after[column], value, "version {version}: {table}.{column}");
            }
        }
    }
}
