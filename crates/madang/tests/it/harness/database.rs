//! The database, seen and changed behind the program's back: a file, or where `scripts/with-mariadb` runs the tests, a
//! database of its own for each data directory.
#![allow(clippy::disallowed_types, reason = "a test looks at the file the program wrote")]

use madang_stack::Supervisor;
use madang_stack::mariadb::MariaDb;
use mysql::prelude::Queryable as _;
use rusqlite::{Connection, OpenFlags};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use tempfile::TempDir;

/// The database file in a data directory.
pub fn file(dir: &Path) -> PathBuf {
    dir.join("madang.db")
}

/// Starts the servers of a test and ends them with it.
pub fn supervisor() -> Supervisor {
    Supervisor::new(env!("CARGO_BIN_EXE_madang"), ["supervise"])
}

/// A directory for a server of MariaDB of a test's own, with an empty store in it. Making one takes a second of a core, so it
/// is made once for each build of the server and copied.
pub fn directory_of_a_server() -> TempDir {
    let program = std::fs::metadata("/usr/sbin/mariadbd").expect("MariaDB is installed");
    let name = format!("mariadb-{}-{}", program.len(), program.mtime());
    let store = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // A copy of one that is being made would be no store: it gets its name when it is whole.
    if !store.exists() {
        let made = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        MariaDb::start(&supervisor(), made.path()).unwrap().stop().unwrap();
        // Whoever was first has it.
        let _ = std::fs::rename(made.path().join("data"), &store);
    }
    let dir = tempfile::tempdir().unwrap();
    let copied = Command::new("cp").arg("-a").arg(&store).arg(dir.path().join("data")).status();
    assert!(copied.unwrap().success());
    dir
}

/// Names the database of a command's data directory to it, where tests run on a server: each directory has one there.
pub fn name_in(command: &mut Command) {
    let args: Vec<_> = command.get_args().collect();
    let opens =
        args.first().is_some_and(|first| ["serve", "import", "seed"].iter().any(|c| first == c));
    let dir = args.iter().position(|arg| *arg == "--data").and_then(|at| args.get(at + 1));
    if let Some(url) = dir.filter(|_| opens).and_then(|dir| url(Path::new(dir))) {
        command.env("MADANG_DATABASE_URL", url);
    }
}

/// Tests about the file of the embedded store, its lock, its log, or the memory that goes with it: they use one in any
/// case. And those that have a server of their own, or say nothing about the store.
const ON_FILES: [&str; 59] = [
    "abuse::",
    "accounts_tokens::the_key_is_made_once",
    "admin::",
    "admin_socket::",
    "answers::a_thousand_readers_that_take_nothing",
    "architecture::",
    "articles::a_cached_article_is_answered_without_sql",
    "backup::",
    "client_address::",
    "cluster_",
    "connections::",
    "copies::",
    "copy::",
    "cors::",
    "demo::",
    "dependencies::",
    "deploy::",
    "disk::",
    "docs::",
    "durability::",
    "exit_codes::a_taken_address",
    "fair_turns::",
    "faults::",
    "galera::",
    "guide::",
    "health::readiness_asks_the_store",
    "home_",
    "import_refusals::an_import_into_a_served_directory",
    "import_refusals::an_import_whose_reader_has_gone",
    "incremental::",
    "like_stream::",
    "likes::a_log_that_cannot_be_read",
    "likes_crash::",
    "load_page::",
    "made_up::",
    "nodes::",
    "nodes_faults::",
    "operator::",
    "outbox::",
    "outcomes::",
    "overload::a_write_keeps_its_place",
    "overload::when_the_",
    "package::",
    "private_files::",
    "protocol::",
    "rate_limits::nodes_count_together",
    "readme::",
    "remote_cache::",
    "replicas::",
    "repository::",
    "request_ids::",
    "seed::a_directory_in_use",
    "settings::",
    "settings_file::",
    "shared_drills::",
    "shared_guard::",
    "tour::",
    "up::",
    "upgrades::",
];

/// Whether this test runs on a server.
pub fn on_server() -> bool {
    // The name of a test's thread is the test's.
    let thread = std::thread::current();
    let on_file =
        thread.name().is_some_and(|name| ON_FILES.iter().any(|module| name.starts_with(module)));
    !on_file && std::env::var_os("MADANG_TEST_MARIADB").is_some()
}

/// The database of a data directory, where tests run on a server.
fn url(dir: &Path) -> Option<String> {
    if !on_server() {
        return None;
    }
    static URLS: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
    let mut urls = URLS.lock().unwrap();
    if !urls.contains_key(dir) {
        urls.insert(dir.to_owned(), madang_testing::database()?);
    }
    urls.get(dir).cloned()
}

/// A session that takes what SQLite takes of these tests' statements.
fn session(url: &str) -> mysql::Conn {
    let mut session = mysql::Conn::new(url).unwrap();
    session
        .query_drop("SET SESSION sql_mode = 'PIPES_AS_CONCAT', group_concat_max_len = 1073741824, max_recursive_iterations = 100000")
        .unwrap();
    session
}

/// Makes the store of one directory that of another, which has none yet.
pub fn copy(from: &Path, to: &Path) {
    let Some((from_url, to_url)) = url(from).zip(url(to)) else {
        std::fs::copy(file(from), file(to)).unwrap();
        return;
    };
    let [from, to] = [from_url, to_url].map(|url| {
        let (server, name) = url.rsplit_once('/').unwrap();
        format!("--protocol=tcp -h127.0.0.1 -uroot -P{} {name}", server.rsplit(':').next().unwrap())
    });
    let copy = format!(
        "mariadb-dump --no-defaults --single-transaction {from} | mariadb --no-defaults {to}"
    );
    assert!(Command::new("sh").args(["-c", &copy]).status().unwrap().success());
}

/// One number from a read-only query; nothing while there is no such table yet.
pub fn number(dir: &Path, sql: &str) -> Option<i64> {
    if let Some(url) = url(dir) {
        return session(&url).query_first(sql).ok()?;
    }
    let conn = Connection::open_with_flags(file(dir), OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    conn.query_row(sql, [], |row| row.get(0)).ok()
}

/// One text from a read-only query.
pub fn text(dir: &Path, sql: &str) -> String {
    if let Some(url) = url(dir) {
        return session(&url).query_first(sql).unwrap().unwrap();
    }
    let conn = Connection::open_with_flags(file(dir), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    conn.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// What SQLite's own full check says: `ok`, or the first damage, be it that it cannot even begin.
pub fn integrity(dir: &Path) -> String {
    if url(dir).is_some() {
        return "ok".to_owned();
    }
    let conn = Connection::open(file(dir)).unwrap();
    conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .unwrap_or_else(|error| error.to_string())
}

/// Runs SQL on the file, which is made when missing.
pub fn execute(dir: &Path, sql: &str) {
    if let Some(url) = url(dir) {
        let sql = sql.replace("randomblob(16)", "unhex(md5(uuid()))");
        let statements = sql.split(';').map(str::trim).filter(|one| !one.is_empty());
        let mut session = session(&url);
        for one in statements.filter(|one| !one.starts_with("PRAGMA")) {
            session.query_drop(one).unwrap_or_else(|error| panic!("{one}: {error}"));
        }
        return;
    }
    let conn = Connection::open(file(dir)).unwrap();
    conn.execute_batch(sql).unwrap();
}

/// What [`lock`] holds.
pub enum Lock {
    File(#[expect(dead_code, reason = "it is there to be dropped")] Connection),
    Server(#[expect(dead_code, reason = "it is there to be dropped")] mysql::Conn),
}

/// Keeps everybody else from writing to the file, or to the articles of a server, until it is dropped.
#[must_use]
pub fn lock(dir: &Path) -> Lock {
    if let Some(url) = url(dir) {
        let mut conn = session(&url);
        conn.query_drop("START TRANSACTION").unwrap();
        conn.query_drop("SELECT id FROM articles FOR UPDATE").unwrap();
        return Lock::Server(conn);
    }
    let conn = Connection::open(file(dir)).unwrap();
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    Lock::File(conn)
}
