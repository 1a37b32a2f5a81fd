//! `madang backup` and `madang restore`: what was acknowledged is in the backup, and nothing else becomes a store.
//!
//! `SOAK_ROUNDS` says how many backups are taken under writes; `make soak` asks for many.

use crate::copy::Target;
use crate::harness::database::{self, integrity, number, text};
use crate::harness::namespace::on_small_disk;
use crate::harness::{Madang, Person, Server, Setup, command, eventually, stores};
use crate::likes::{counts_are_rows, server_with};
use crate::{articles, posts};
use serde_json::{Value, json};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

pub fn backup(data: &Path, to: &Path) -> Madang {
    Madang::new(["backup", "--data", data.to_str().unwrap(), "--to", to.to_str().unwrap()])
}

pub fn restore(from: &Path, data: &Path) -> Madang {
    Madang::new(["restore", "--from", from.to_str().unwrap(), "--data", data.to_str().unwrap()])
}

/// A store with something of everything, and a backup of it.
pub fn backed_up() -> (tempfile::TempDir, PathBuf) {
    let dir = stores::demo();
    // The key is made when it is first served.
    Setup::new().data(dir.path()).start().stop();
    let archive = dir.path().join("all.tar.zst");
    backup(dir.path(), &archive).succeeds();
    (dir, archive)
}

/// Name and content of an entry.
pub type Entry = (String, Vec<u8>);

/// What an archive holds, entry by entry.
pub fn entries(archive: &Path) -> Vec<Entry> {
    let unpacked = zstd::decode_all(std::fs::File::open(archive).unwrap()).unwrap();
    let mut tar = tar::Archive::new(&*unpacked);
    let entry = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (entry.path().unwrap().to_str().unwrap().to_owned(), bytes)
    };
    tar.entries().unwrap().map(entry).collect()
}

/// An archive of these entries.
pub fn archive(to: &Path, entries: &[Entry]) {
    let mut tar = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).unwrap());
    for (name, bytes) in entries {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        tar.append_data(&mut header, name, &**bytes).unwrap();
    }
    std::fs::write(to, tar.into_inner().unwrap().finish().unwrap()).unwrap();
}

/// Who [`write`]s: made before anybody does, or their log-ins would wait for their turn at a busy machine.
pub fn writers(server: &Server) -> Vec<Person> {
    (0..4).map(|number| server.somebody(&format!("writer-{number}"))).collect()
}

/// Writes posts and likes until `ended` is set, and notes every acknowledged post.
pub fn write(
    server: &Server,
    person: &Person,
    article: i64,
    ended: &AtomicBool,
    noted: &Mutex<Vec<i64>>,
) {
    let mut connection = server.connect();
    while !ended.load(Ordering::Relaxed) {
        let answer = connection.json("POST", "/v1/posts", Some(person), &posts::bicycle());
        assert_eq!(answer.status, 201, "{}", answer.text());
        noted.lock().unwrap().push(answer.json()["id"].as_i64().unwrap());
        let method = ["PUT", "DELETE"][fastrand::usize(..2)];
        assert_eq!(crate::likes::ask(&mut connection, method, article, person).status, 200);
    }
}

/// Ends writers with its scope, also where a test fails in between: they would be waited for without an end.
pub struct Ends<'e>(pub &'e AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A restored store is sound and has every acknowledged post.
pub fn holds(restored: &Path, acknowledged: &[i64], round: usize) {
    assert_eq!(integrity(restored), "ok", "round {round}");
    counts_are_rows(restored);
    let ids = text(restored, "SELECT ifnull(group_concat(id), '') FROM posts");
    let ids: std::collections::HashSet<i64> =
        ids.split(',').map(|id| id.parse().unwrap()).collect();
    let missing: Vec<_> = acknowledged.iter().filter(|id| !ids.contains(id)).collect();
    assert!(missing.is_empty(), "round {round}: {missing:?}");
}

/// A restored store is served, with this post and without a count to repair.
pub fn serves(restored: &Path, post: i64) {
    let served = Setup::new().cheap_hash().data(restored).start();
    eventually("all articles were checked", || {
        (served.metric("madang_article_check_passes_total", &[]) >= 1.0).then_some(())
    });
    assert!(served.metric("madang_article_counts_repaired_total", &[]).abs() < f64::EPSILON);
    assert_eq!(served.get(&format!("/v1/posts/{post}")).status, 200);
}

#[test]
fn a_backup_under_writes_holds_everything_acknowledged_before_it() {
    let rounds = std::env::var("SOAK_ROUNDS").map_or(3, |rounds| rounds.parse().unwrap());
    let data = tempfile::tempdir().unwrap();
    let server = server_with("behind", data.path());
    let author = server.somebody("author");
    let article = articles::write(&server, &author, "liked");
    let (ended, noted, writers) =
        (AtomicBool::new(false), Mutex::new(Vec::new()), writers(&server));
    std::thread::scope(|scope| {
        let _ends = Ends(&ended);
        for writer in &writers {
            let (server, ended, noted) = (&server, &ended, &noted);
            scope.spawn(move || write(server, writer, article, ended, noted));
        }
        for round in 0..rounds {
            let written = || noted.lock().unwrap().len();
            let before = written();
            eventually("more posts", || (written() >= before + 50).then_some(()));
            let acknowledged = noted.lock().unwrap().clone();
            let dir = tempfile::tempdir().unwrap();
            let (archive, restored) = (dir.path().join("a.tar.zst"), dir.path().join("data"));
            backup(data.path(), &archive).succeeds();
            assert!(written() > acknowledged.len(), "round {round}: nobody wrote meanwhile");
            restore(&archive, &restored).succeeds();
            holds(&restored, &acknowledged, round);
            // Nor does anything stay beside the archive.
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
            if round == 0 {
                serves(&restored, *acknowledged.last().unwrap());
            }
        }
    });
}

#[test]
fn tokens_go_on_unless_the_key_is_rotated() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Setup::new().cheap_hash().data(&data).start();
    let mina = server.somebody("mina");
    let archive = dir.path().join("with-key.tar.zst");
    let said = backup(&data, &archive).succeeds();
    assert!(said.stdout.contains("as of"), "{}", said.stdout);
    drop(server);
    let answered = |data: &Path| {
        let server = Setup::new().cheap_hash().data(data).start();
        server.post("/v1/posts", Some(&mina), &posts::bicycle()).status
    };
    let kept = dir.path().join("kept");
    let said = restore(&archive, &kept).succeeds();
    assert!(said.stdout.contains("valid again"), "{}", said.stdout);
    assert_eq!(answered(&kept), 201);
    let rotated = dir.path().join("rotated");
    let flags = ["restore", "--rotate-key", "--from", archive.to_str().unwrap(), "--data"];
    let said = Madang::new(flags.iter().copied().chain([rotated.to_str().unwrap()])).succeeds();
    assert!(said.stdout.contains("log in again"), "{}", said.stdout);
    assert_eq!(answered(&rotated), 401);
}

#[test]
fn what_is_not_a_whole_backup_makes_no_store() {
    let (dir, whole) = backed_up();
    let bytes = std::fs::read(&whole).unwrap();
    let good = entries(&whole);
    let names: Vec<_> = good.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["manifest.json", "madang.db", "token.key"]);
    let bad = dir.path().join("bad.tar.zst");
    let refused = |code: i32, what: &str| {
        let data = dir.path().join("data");
        restore(&bad, &data).fails_with(code).complains(&[what]);
        let left: Vec<_> =
            std::fs::read_dir(&data).unwrap().map(|one| one.unwrap().file_name()).collect();
        assert_eq!(left, ["madang.lock"], "{what}");
    };
    // Cut off anywhere, or changed anywhere.
    for at in [0, 1, 100, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&bad, &bytes[..at]).unwrap();
        refused(6, "not a whole backup");
        let mut changed = bytes.clone();
        changed[at] ^= 0x55;
        std::fs::write(&bad, &changed).unwrap();
        refused(6, "not a whole backup");
    }
    let with = |change: &dyn Fn(&mut Vec<Entry>)| {
        let mut entries = good.clone();
        change(&mut entries);
        archive(&bad, &entries);
    };
    let manifest = |change: &dyn Fn(&mut Value)| {
        with(&|entries| {
            let mut manifest: Value = serde_json::from_slice(&entries[0].1).unwrap();
            change(&mut manifest);
            entries[0].1 = serde_json::to_vec(&manifest).unwrap();
        });
    };
    with(&|entries| drop(entries.pop()));
    refused(6, "token.key is missing");
    with(&|entries| drop(entries.remove(0)));
    refused(6, "manifest.json is missing");
    with(&|entries| entries.push(("more".to_owned(), Vec::new())));
    refused(6, "something follows");
    with(&|entries| entries[1].0 = "elsewhere/madang.db".to_owned());
    refused(6, "madang.db is missing");
    with(&|entries| {
        let half = entries[1].1.len() / 2;
        entries[1].1[half] ^= 1;
    });
    refused(6, "madang.db is not what the manifest says");
    with(&|entries| entries[1].1.push(0));
    refused(6, "madang.db is not what the manifest says");
    manifest(&|manifest| manifest["files"][0]["name"] = json!("../../elsewhere"));
    refused(6, "names other files");
    manifest(&|manifest| manifest["files"][0]["bytes"] = json!(u64::MAX));
    refused(6, "not what the manifest says");
    manifest(&|manifest| manifest["schema"] = json!(9999));
    refused(2, "use a newer one");
    manifest(&|manifest| manifest["format"] = json!(2));
    refused(6, "contradicts itself");
    manifest(&|manifest| manifest["format"] = json!(3));
    refused(2, "format 3");
    manifest(&|manifest| manifest["schema"] = json!(1));
    refused(6, "schema version");
}

#[test]
fn a_damaged_store_is_not_backed_up() {
    let (dir, _) = backed_up();
    let file = database::file(dir.path());
    let mut bytes = std::fs::read(&file).unwrap();
    // Somewhere in the middle, where opening does not look.
    let at = bytes.len() / 2 / 4096 * 4096;
    bytes[at..at + 4096].fill(0xff);
    std::fs::write(&file, &bytes).unwrap();
    let to = dir.path().join("none.tar.zst");
    backup(dir.path(), &to).fails_with(6).complains(&["damaged"]);
    assert!(!to.exists());
}

#[test]
fn wrong_places_are_named() {
    let (dir, archive) = backed_up();
    let path = |name: &str| dir.path().join(name);
    backup(dir.path(), &archive).fails_with(2).complains(&["exists already"]);
    backup(dir.path(), &path("no/where")).fails_with(2).complains(&["there is no directory"]);
    backup(&path("empty"), &path("new")).fails_with(2).complains(&["holds no madang.db"]);
    restore(&archive, dir.path()).fails_with(2).complains(&["exists already"]);
    restore(&path("absent"), &path("data")).fails_with(1).complains(&["--from", "No such file"]);
    let keep = ["backup", "--keep", "2", "--to", "new", "--data"];
    let keep = keep.into_iter().chain([dir.path().to_str().unwrap()]);
    Madang::new(keep).fails_with(2).complains(&["--keep", "directory"]);
}

#[test]
fn a_directory_keeps_the_newest() {
    let (dir, _) = backed_up();
    let backups = tempfile::tempdir().unwrap();
    for old in ["madang-20200101T000000Z.tar.zst", "madang-20210101T000000Z.tar.zst", "mine"] {
        std::fs::write(backups.path().join(old), "").unwrap();
    }
    let args = ["backup", "--keep", "2", "--data", dir.path().to_str().unwrap(), "--to"];
    let said = Madang::new(args.into_iter().chain([backups.path().to_str().unwrap()])).succeeds();
    assert!(said.stdout.contains("removed"), "{}", said.stdout);
    let mut left: Vec<_> =
        std::fs::read_dir(backups.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left.len(), 3, "{left:?}");
    assert_eq!(left[0], "madang-20210101T000000Z.tar.zst");
    assert_eq!(left[2], "mine");
}

#[test]
fn metrics_tell_when_a_backup_last_succeeded() {
    const LAST: &str = "madang_backup_last_success_timestamp_seconds";
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Setup::new().data(dir.path()).start();
    let (file, late) = (elsewhere.path().join("a.tar.zst"), elsewhere.path().join("b.tar.zst"));
    backup(dir.path(), &elsewhere.path().join("no/where")).fails_with(2);
    assert!(server.metrics_page().contains(LAST));
    assert!(server.metric(LAST, &[]).abs() < f64::EPSILON);
    let seconds = || {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        since.as_secs() as f64
    };
    let began = seconds();
    backup(dir.path(), &file).succeeds();
    assert!((began..=seconds()).contains(&server.metric(LAST, &[])));
    // As old as yesterday's: a new one is noted anew, one that fails is not.
    let yesterday = std::time::SystemTime::now() - std::time::Duration::from_secs(86_400);
    let noted = std::fs::File::open(dir.path().join("last-backup")).unwrap();
    noted.set_modified(yesterday).unwrap();
    backup(dir.path(), &file).fails_with(2);
    assert!(server.metric(LAST, &[]) < began);
    backup(dir.path(), &late).succeeds();
    assert!(server.metric(LAST, &[]) >= began);
}

#[test]
fn one_goes_through_a_pipe_into_another_directory() {
    let (dir, _) = backed_up();
    let mut take = command::clean(command::program());
    take.args(["backup", "--to", "-", "--data"]).arg(dir.path());
    let mut take = take.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let data = dir.path().join("piped");
    let mut put = command::clean(command::program());
    put.args(["restore", "--from", "-", "--data"]).arg(&data).stdout(Stdio::null());
    let put = put.stdin(take.stdout.take().unwrap()).status().unwrap();
    assert!(take.wait().unwrap().success() && put.success());
    let files = std::fs::read_dir(&data).unwrap().map(|one| one.unwrap().file_name());
    let mut files: Vec<_> = files.collect();
    files.sort();
    assert_eq!(files, ["madang.db", "madang.lock", "token.key"]);
    let rows = "SELECT count(*) FROM tracks";
    assert_eq!(number(&data, rows), number(dir.path(), rows));
}

#[test]
fn a_full_disk_leaves_the_store_as_it_was_and_no_backup() {
    let dir = tempfile::tempdir().unwrap();
    let (data, to) = (stores::demo(), dir.path().join("a.tar.zst"));
    let mut command = on_small_disk(dir.path(), "1m", "true");
    command.args(["backup", "--data"]).arg(data.path()).arg("--to").arg(&to);
    Madang::from_command(command).fails_with(6).complains(&["no space"]);
    assert_eq!(integrity(data.path()), "ok");
}

#[test]
fn a_reader_who_goes_gets_no_backup_and_the_next_one_is_whole() {
    let (dir, _) = backed_up();
    let mut take = command::clean(command::program());
    take.args(["backup", "--to", "-", "--data"]).arg(dir.path());
    let mut take = take.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(take.stdout.take());
    assert_eq!(take.wait().unwrap().code(), Some(1));
    // As one leaves it that was killed.
    let work = dir.path().join(".madang-backup");
    std::fs::create_dir(&work).unwrap();
    for left in ["madang.db", "madang.db-wal", "token.key"] {
        std::fs::write(work.join(left), "left").unwrap();
    }
    let (archive, data) = (dir.path().join("next.tar.zst"), dir.path().join("next"));
    backup(dir.path(), &archive).succeeds();
    assert!(!work.exists());
    restore(&archive, &data).succeeds();
    assert_eq!(integrity(&data), "ok");
}

#[test]
fn a_database_on_mariadb_is_backed_up_into_a_file() {
    let from = stores::demo();
    let target = Target::new();
    target.copy(from.path()).succeeds();
    let node = target.node(from.path()).start();
    let mina = node.somebody("mina");
    let post = posts::made(&node, &mina, &posts::bicycle());
    let dir = tempfile::tempdir().unwrap();
    let (archive, data) = (dir.path().join("a.tar.zst"), dir.path().join("data"));
    backup(from.path(), &archive).env("MADANG_DATABASE_URL", &target.url()).succeeds();
    let manifest: Value = serde_json::from_slice(&entries(&archive)[0].1).unwrap();
    assert_eq!(manifest["engine"], "mariadb");
    drop(node);
    restore(&archive, &data).succeeds();
    let served = Setup::new().cheap_hash().data(&data).start();
    assert_eq!(served.get(&format!("/v1/posts/{post}")).status, 200);
    let rows = "SELECT count(*) FROM tracks";
    assert_eq!(number(&data, rows), number(from.path(), rows));
}
