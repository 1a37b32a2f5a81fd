//! `madang backup --since`: what changed, and the chain that a restore needs.

use crate::backup::{
    Ends, Entry, archive, backed_up, backup, entries, holds, restore, serves, write, writers,
};
use crate::harness::database::{execute, integrity, number};
use crate::harness::{Madang, Setup, command, eventually};
use crate::likes::server_with;
use crate::{articles, posts};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// Bytes of a block.
const BLOCK: usize = 4096;

fn since(data: &Path, earlier: &Path, to: &Path) -> Madang {
    let [data, earlier, to] = [data, earlier, to].map(|path| path.to_str().unwrap());
    Madang::new(["backup", "--data", data, "--since", earlier, "--to", to])
}

/// One more post, by a server that comes and goes.
fn written(data: &Path, name: &str) -> i64 {
    let server = Setup::new().cheap_hash().data(data).start();
    let person = server.somebody(name);
    let post = posts::made(&server, &person, &posts::bicycle());
    server.stop();
    post
}

fn manifest(archive: &Path) -> Value {
    serde_json::from_slice(&entries(archive)[0].1).unwrap()
}

/// A store, a directory with a full backup `0` and two incremental ones that follow it, and the posts written before each
/// of the two.
struct Chain {
    store: tempfile::TempDir,
    dir: tempfile::TempDir,
    posts: [i64; 2],
}

impl Chain {
    fn new() -> Chain {
        let (store, full) = backed_up();
        let dir = tempfile::tempdir().unwrap();
        fs::rename(full, dir.path().join("0")).unwrap();
        let mut chain = Chain { store, dir, posts: [0; 2] };
        for number in 0..2 {
            chain.posts[number] = written(chain.store.path(), &format!("writer-{number}"));
            let [earlier, to] = [number, number + 1].map(|number| chain.path(number));
            let said = since(chain.store.path(), &earlier, &to).succeeds().stdout;
            assert!(said.contains(&format!("builds on {number}:")), "{said}");
        }
        chain
    }

    fn path(&self, number: usize) -> PathBuf {
        self.dir.path().join(number.to_string())
    }

    /// The newest is not restored, and the directory is as it was before.
    fn is_refused(&self, code: i32, complaint: &[&str]) {
        let data = self.store.path().join("refused");
        restore(&self.path(2), &data).fails_with(code).complains(complaint);
        let left: Vec<_> =
            fs::read_dir(&data).unwrap().map(|one| one.unwrap().file_name()).collect();
        assert_eq!(left, ["madang.lock"], "{complaint:?}");
    }

    /// Changes what is in a file of the chain, or the file, while `run` runs.
    fn with(&self, number: usize, change: impl FnOnce(&Path), run: impl FnOnce()) {
        let (path, kept) = (self.path(number), self.dir.path().join("kept"));
        fs::copy(&path, &kept).unwrap();
        change(&path);
        run();
        fs::rename(&kept, &path).unwrap();
    }
}

/// Changes the entries of an archive, which is otherwise whole.
fn entry_by_entry(change: impl Fn(&mut Vec<Entry>)) -> impl FnOnce(&Path) {
    move |path| {
        let mut entries = entries(path);
        change(&mut entries);
        archive(path, &entries);
    }
}

fn in_manifest(change: impl Fn(&mut Value)) -> impl FnOnce(&Path) {
    entry_by_entry(move |entries| {
        let mut manifest: Value = serde_json::from_slice(&entries[0].1).unwrap();
        change(&mut manifest);
        entries[0].1 = serde_json::to_vec(&manifest).unwrap();
    })
}

fn flipped(entries: &mut [Entry]) {
    let half = entries[1].1.len() / 2;
    entries[1].1[half] ^= 1;
}

#[test]
fn each_of_a_chain_under_writes_holds_everything_acknowledged_before_it() {
    let data = tempfile::tempdir().unwrap();
    let server = server_with("behind", data.path());
    let author = server.somebody("author");
    let article = articles::write(&server, &author, "liked");
    let (ended, noted, writers) =
        (AtomicBool::new(false), Mutex::new(Vec::new()), writers(&server));
    let dir = tempfile::tempdir().unwrap();
    let path = |round: usize| dir.path().join(round.to_string());
    let mut acknowledged: Vec<Vec<i64>> = Vec::new();
    std::thread::scope(|scope| {
        let _ends = Ends(&ended);
        for writer in &writers {
            let (server, ended, noted) = (&server, &ended, &noted);
            scope.spawn(move || write(server, writer, article, ended, noted));
        }
        for round in 0..3 {
            let written = || noted.lock().unwrap().len();
            let before = written();
            eventually("more posts", || (written() >= before + 50).then_some(()));
            acknowledged.push(noted.lock().unwrap().clone());
            match round {
                0 => backup(data.path(), &path(0)).succeeds(),
                _ => since(data.path(), &path(round - 1), &path(round)).succeeds(),
            };
            assert!(written() > acknowledged[round].len(), "round {round}: nobody wrote meanwhile");
        }
    });
    // Nothing stays beside the archives.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    for (round, acknowledged) in acknowledged.iter().enumerate() {
        let restored = data.path().join(format!("restored-{round}"));
        restore(&path(round), &restored).succeeds();
        holds(&restored, acknowledged, round);
        if round == 2 {
            serves(&restored, *acknowledged.last().unwrap());
        }
    }
}

#[test]
fn only_blocks_that_changed_are_in_it() {
    let chain = Chain::new();
    let stores = [0, 1, 2].map(|number| {
        let data = chain.store.path().join(format!("restored-{number}"));
        restore(&chain.path(number), &data).succeeds();
        fs::read(data.join("madang.db")).unwrap()
    });
    for (at, pair) in stores.windows(2).enumerate() {
        let [before, after] = pair else { unreachable!("windows of two") };
        let differ = |block: usize| {
            let of = |store: &[u8]| store.chunks(BLOCK).nth(block).map(<[u8]>::to_vec);
            of(before) != of(after)
        };
        let blocks = after.chunks(BLOCK).enumerate();
        let changed: BTreeMap<u64, &[u8]> = blocks
            .filter(|(block, _)| differ(*block))
            .map(|(block, bytes)| (block as u64, bytes))
            .collect();
        let entries = entries(&chain.path(at + 1));
        let names: Vec<_> = entries.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["manifest.json", "madang.db.changes", "token.key"]);
        let found: BTreeMap<u64, &[u8]> = entries[1]
            .1
            .chunks(8 + BLOCK)
            .map(|record| record.split_at(8))
            .map(|(block, bytes)| (u64::from_le_bytes(block.try_into().unwrap()), bytes))
            .collect();
        assert!(found == changed, "{:?} are not {:?}", found.keys(), changed.keys());
        // One post and one account, of a store of many tracks and markets.
        assert!(!changed.is_empty() && changed.len() * 10 < after.len() / BLOCK, "{changed:?}");
    }
}

#[test]
fn what_is_missing_of_a_chain_or_damaged_is_named_and_makes_no_store() {
    let chain = Chain::new();
    let named = |number: usize| chain.path(number).to_str().unwrap().to_owned();
    let removed = |path: &Path| fs::remove_file(path).unwrap();
    chain.with(0, removed, || chain.is_refused(2, &[&named(0), "is missing"]));
    chain.with(1, removed, || chain.is_refused(2, &[&named(1), "is missing"]));
    // Another backup under the name of the one that is needed.
    let another = |number: usize| {
        move |path: &Path| {
            fs::copy(path.with_file_name(number.to_string()), path).unwrap();
        }
    };
    chain.with(1, another(0), || chain.is_refused(2, &[&named(1), "another backup"]));
    chain.with(0, another(1), || chain.is_refused(2, &[&named(0), "another backup"]));
    for number in [0, 1] {
        let cut = |path: &Path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
        };
        chain.with(number, cut, || chain.is_refused(6, &[&named(number), "not a whole backup"]));
        let changed = |path: &Path| {
            let mut bytes = fs::read(path).unwrap();
            let half = bytes.len() / 2;
            bytes[half] ^= 0x55;
            fs::write(path, bytes).unwrap();
        };
        chain.with(number, changed, || chain.is_refused(6, &[&named(number), "not a whole"]));
        // Whole as an archive.
        let otherwise = entry_by_entry(|entries| flipped(entries));
        chain.with(number, otherwise, || {
            chain.is_refused(6, &[&named(number), "is not what the manifest says"]);
        });
        let other_key = entry_by_entry(|entries| entries[2].1.push(b'0'));
        chain.with(number, other_key, || {
            chain.is_refused(6, &[&named(number), "token.key is not what the manifest says"]);
        });
    }
    // Of the newest itself.
    let otherwise = entry_by_entry(|entries| flipped(entries));
    chain.with(2, otherwise, || chain.is_refused(6, &["madang.db.changes is not what"]));
    let sum = in_manifest(|manifest| manifest["since"]["store"]["sha256"] = json!("00"));
    chain.with(2, sum, || chain.is_refused(6, &["madang.db is not what the manifest says"]));
    let elsewhere = in_manifest(|manifest| manifest["since"]["backup"] = json!("../0"));
    chain.with(2, elsewhere, || chain.is_refused(6, &["contradicts itself"]));
    let full = in_manifest(|manifest| manifest["format"] = json!(1));
    chain.with(2, full, || chain.is_refused(6, &["contradicts itself"]));
    // From a stream nothing is beside it.
    let data = chain.store.path().join("piped");
    let mut put = command::clean(command::program());
    put.args(["restore", "--from", "-", "--data"]).arg(&data);
    put.stdin(File::open(chain.path(2)).unwrap());
    Madang::from_command(put).fails_with(2).complains(&["give it as a file", "1"]);
    // As they were, they are a store, also through a link that is elsewhere.
    let link = chain.store.path().join("newest");
    std::os::unix::fs::symlink(chain.path(2), &link).unwrap();
    let data = chain.store.path().join("whole");
    restore(&link, &data).succeeds();
    assert_eq!(integrity(&data), "ok");
    for post in chain.posts {
        assert_eq!(
            number(&data, &format!("SELECT count(*) FROM posts WHERE id = {post}")),
            Some(1)
        );
    }
}

#[test]
fn nothing_builds_on_what_could_not_be_restored() {
    let chain = Chain::new();
    let refused = |earlier: &Path, code: i32, complaint: &[&str]| {
        let to = chain.dir.path().join("next");
        since(chain.store.path(), earlier, &to).fails_with(code).complains(complaint);
        assert!(!to.exists());
        let left = fs::read_dir(chain.dir.path()).unwrap();
        assert!(left.flatten().all(|file| file.file_name() != ".madang-backup"));
    };
    let newest = chain.path(2);
    let named = |number: usize| chain.path(number).to_str().unwrap().to_owned();
    refused(&chain.path(7), 1, &["No such file"]);
    refused(&chain.store.path().join("madang.db"), 6, &["not a whole backup"]);
    let removed = |path: &Path| fs::remove_file(path).unwrap();
    chain.with(0, removed, || refused(&newest, 2, &[&named(0), "is missing"]));
    for number in 0..3 {
        let otherwise = entry_by_entry(|entries| flipped(entries));
        chain.with(number, otherwise, || {
            refused(&newest, 6, &[&named(number), "is not what the manifest says"]);
        });
    }
    let to = chain.dir.path().join("next");
    since(chain.store.path(), &newest, &to)
        .env("MADANG_DATABASE_URL", "mysql://madang@127.0.0.1:1/madang")
        .fails_with(2)
        .complains(&["MariaDB", "binary log"]);
    since(chain.store.path(), &newest, &to).succeeds();
}

#[test]
fn what_a_kept_backup_builds_on_stays() {
    let (store, _) = backed_up();
    let dir = tempfile::tempdir().unwrap();
    let files = || {
        let mut files: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|one| one.unwrap().path()).collect();
        files.sort();
        files
    };
    let take = |more: &[&str]| {
        let args = ["backup", "--keep", "1", "--data", store.path().to_str().unwrap(), "--to"];
        let args = args.into_iter().chain([dir.path().to_str().unwrap()]);
        Madang::new(args.chain(more.iter().copied())).succeeds().stdout
    };
    take(&[]);
    for count in 1..3 {
        let before = files();
        assert_eq!(before.len(), count);
        let said = take(&["--since", before.last().unwrap().to_str().unwrap()]);
        assert!(!said.contains("removed"), "{said}");
        let name = before.last().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(manifest(files().last().unwrap())["since"]["backup"], json!(name));
    }
    let data = store.path().join("restored");
    restore(files().last().unwrap(), &data).succeeds();
    let chain = files();
    let said = take(&[]);
    assert!(chain.iter().all(|file| said.contains(file.to_str().unwrap())), "{said}");
    assert_eq!(files().len(), 1);
}

#[test]
fn an_upgrade_may_come_between() {
    let fixtures =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../service/src/store/sqlite/fixtures");
    let mut versions: Vec<_> = fs::read_dir(fixtures)
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "zst"))
        .collect();
    versions.sort();
    let [.., old, _] = &*versions else { panic!("{versions:?}") };
    let data = tempfile::tempdir().unwrap();
    let store = zstd::decode_all(File::open(old).unwrap()).unwrap();
    fs::write(data.path().join("madang.db"), store).unwrap();
    // Its log is a sample of the column, not of likes.
    execute(data.path(), "DELETE FROM like_log");
    let dir = tempfile::tempdir().unwrap();
    let [full, next] = ["full", "next"].map(|name| dir.path().join(name));
    backup(data.path(), &full).succeeds();
    let post = written(data.path(), "after-the-upgrade");
    since(data.path(), &full, &next).succeeds();
    let schema = |archive| manifest(archive)["schema"].as_u64().unwrap();
    assert_eq!(schema(&next), schema(&full) + 1);
    let restored = dir.path().join("restored");
    restore(&next, &restored).succeeds();
    assert_eq!(integrity(&restored), "ok");
    assert_eq!(
        number(&restored, &format!("SELECT count(*) FROM posts WHERE id = {post}")),
        Some(1)
    );
}
