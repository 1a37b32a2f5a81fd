//! A disk that filled up while the service was away.
#![allow(
    clippy::disallowed_types,
    reason = "writes a log of likes as an earlier process has left it"
)]

use crate::harness::{open, runtime};
use madang_service::store::FILE;
use madang_testing::Finish as _;
use std::path::Path;
use std::process::Command;

const CHILD: &str = "MADANG_SERVICE_TEST_FULL_DISK";

/// Articles of user 1, each with a like of that user in the log; far more than the room kept in reserve.
const ARTICLES: i64 = 3000;

/// Not a test by itself: the process that opens the store on the full disk. A file there says when there is
/// room again.
#[test]
fn child_that_opens_the_store_on_a_full_disk() {
    let Ok(dir) = std::env::var(CHILD) else { return };
    let dir = Path::new(&dir);
    let app = open(dir);
    let pending = app.articles.like_metrics().pending;
    assert!(pending > 0 && pending <= ARTICLES as u64, "{pending}");
    runtime().block_on(async {
        let store = app.articles.store();
        assert!(store.find(ARTICLES).await.unwrap().is_some(), "it can read");
    });
    drop(app);
    std::fs::remove_file(dir.join("ballast")).unwrap();
    let app = open(dir);
    assert_eq!(app.articles.like_metrics().pending, 0);
    runtime().block_on(async {
        for id in [1, ARTICLES] {
            assert!(app.articles.likes().has(id, 1).await.unwrap(), "{id}");
        }
    });
    println!("it was served");
}

#[test]
fn a_log_of_likes_that_finds_no_room_does_not_stop_the_start() {
    let (prepared, full) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    drop(open(prepared.path()));
    let conn = rusqlite::Connection::open(prepared.path().join(FILE)).unwrap();
    let pairs: String = (0..ARTICLES).map(|_| "0201").collect();
    // 3000, seven bits a byte; then article and user of each pair, the article one more than the one before.
    conn.execute_batch(&format!(
        "INSERT INTO users (id, nickname, password_hash, region_id, created_at_ms) VALUES (1, 'mina', '-', 11, 0);
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ARTICLES})
         INSERT INTO articles (id, author_id, title, created_at_ms, updated_at_ms)
         SELECT i, 1, 'article', 0, 0 FROM n;
         INSERT INTO article_contents SELECT id, 'text' FROM articles;
         INSERT INTO like_log (likes) VALUES (x'01b817{pairs}');"
    ))
    .unwrap();
    drop(conn);
    let child = std::env::current_exe().unwrap();
    let script =
        "mount -t tmpfs -o size=3m tmpfs \"$FULL\" && cp \"$PREPARED\"/* \"$FULL\" || exit 99
        dd if=/dev/zero of=\"$FULL/ballast\" bs=4k 2>/dev/null
        exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(child)
        .args(["--exact", "full_disk::child_that_opens_the_store_on_a_full_disk", "--nocapture"])
        .env("PREPARED", prepared.path())
        .env("FULL", full.path())
        .env(CHILD, full.path())
        .finish();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("it was served"), "{text}\n{errors}");
}
