//! `madang copy`: an embedded store becomes a database of MariaDB, whatever interrupts it.

use crate::harness::database::{directory_of_a_server, integrity, number, supervisor};
use crate::harness::{Answer, Madang, Output, Person, Server, Setup, eventually, stores};
use crate::{articles, likes, posts, schedules};
use madang_stack::mariadb::MariaDb;
use mysql::prelude::Queryable as _;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Child;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// A server for the tests that run at the same time.
struct Shared {
    server: MariaDb,
    _dir: tempfile::TempDir,
}

/// An empty database of its own.
pub struct Target {
    shared: Arc<Shared>,
    name: String,
}

impl Target {
    pub fn new() -> Self {
        static RUNNING: Mutex<Weak<Shared>> = Mutex::new(Weak::new());
        static MADE: AtomicU32 = AtomicU32::new(0);
        let mut running = RUNNING.lock().unwrap();
        let shared = running.upgrade().unwrap_or_else(|| {
            let dir = directory_of_a_server();
            let server = MariaDb::start(&supervisor(), dir.path()).unwrap();
            Arc::new(Shared { server, _dir: dir })
        });
        *running = Arc::downgrade(&shared);
        drop(running);
        let name = format!("copy_{}", MADE.fetch_add(1, Relaxed));
        let target = Self { shared, name };
        target.session().query_drop(format!("CREATE DATABASE {}", target.name)).unwrap();
        target
    }

    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/{}", self.shared.server.port(), self.name)
    }

    /// A session without a database: one of it would be taken for a node.
    fn session(&self) -> mysql::Conn {
        let url = format!("mysql://root@127.0.0.1:{}", self.shared.server.port());
        mysql::Conn::new(url.as_str()).unwrap()
    }

    /// One number of a query in which `{}` stands for the database; nothing while there is no such table.
    fn number(&self, query: &str) -> Option<i64> {
        self.session().query_first::<Option<i64>, _>(query.replace("{}", &self.name)).ok()??
    }

    pub fn copy(&self, from: &Path) -> Madang {
        copy(from, &self.url())
    }

    pub fn node(&self, from: &Path) -> Setup {
        Setup::new().cheap_hash().data(from).set("database.url", &self.url())
    }

    /// What all tables hold, in one number each.
    fn sums(&self) -> Vec<(String, Option<i64>)> {
        let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = '{}'";
        let mut session = self.session();
        let tables: Vec<String> = session.query(tables.replace("{}", &self.name)).unwrap();
        let list: Vec<_> = tables.iter().map(|table| format!("{}.{table}", self.name)).collect();
        session.query(format!("CHECKSUM TABLE {}", list.join(", "))).unwrap()
    }
}

fn copy(from: &Path, to: &str) -> Madang {
    Madang::new(["copy", "--from", from.to_str().unwrap(), "--to", to])
}

/// Rows of every kind, left by a server that was killed: likes are in the log.
struct Filled {
    dir: tempfile::TempDir,
    mina: Person,
    logged_out: Person,
}

fn filled() -> Filled {
    static FILLED: OnceLock<Filled> = OnceLock::new();
    let original = FILLED.get_or_init(|| {
        let dir = stores::demo();
        let data = dir.path().to_str().unwrap().to_owned();
        let rows = "seed --users 20 --schedules-per-user 2 --posts 6000 --articles 60 --comments 200 \
                    --likes 400 --shared-hash --unsafe-experiments --hash bcrypt:4 --data";
        Madang::new(rows.split(' ').chain([data.as_str()])).succeeds();
        let mut server = Setup::new().cheap_hash().data(dir.path()).start();
        let [mina, logged_out] = live(&server);
        // The server itself takes likes out of the log, from time to time.
        eventually("it is killed with likes in the log", || {
            server.signal(Signal::KILL);
            server.wait();
            if number(dir.path(), "SELECT count(*) FROM like_log") > Some(0) {
                return Some(());
            }
            server = Setup::new().cheap_hash().data(dir.path()).start();
            for method in ["DELETE", "PUT"] {
                assert_eq!(likes::ask(&mut server.connect(), method, 1, &mina).status, 200);
            }
            None
        });
        Filled { dir, mina, logged_out }
    });
    let dir = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(original.dir.path()).unwrap().flatten() {
        // A killed server leaves its socket, which nobody can copy.
        if file.file_name() == "admin.sock" {
            continue;
        }
        std::fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
    }
    Filled { dir, mina: original.mina.clone(), logged_out: original.logged_out.clone() }
}

const TRACK: &str = r#"{"name": "둘레길 ✨", "segments": [[[37.5, 127], [37.501, 127.25, 31.5]]]}"#;

/// Two people do everything that leaves rows, and take some of the last ones away again. The second token is logged out.
fn live(server: &Server) -> [Person; 2] {
    let (mina, other) = (server.somebody("Mina_민아"), server.somebody("mina"));
    let logged_out = server.log_in("mina");
    assert_eq!(server.post("/v1/auth/user/logout", Some(&logged_out), &json!({})).status, 204);
    for hour in 0..30 {
        schedules::made(server, &mina, &schedules::plan("walk", hour));
    }
    let bearer = mina.bearer();
    for key in ["first", "second", "first"] {
        let headers = [
            ("Content-Type", "application/json"),
            ("Authorization", bearer.as_str()),
            ("Idempotency-Key", key),
        ];
        let body = posts::bicycle().to_string();
        assert_eq!(server.connect().send_body("POST", "/v1/posts", &headers, body).status, 201);
    }
    let track: Value = serde_json::from_str(TRACK).unwrap();
    let made = server.post("/v1/tracks", Some(&mina), &track);
    assert_eq!(made.status, 201, "{}", made.text());
    let track = made.json()["id"].as_i64().unwrap();
    for (by, seconds) in [(&mina, 99.5), (&other, 100.25), (&mina, 98.125)] {
        let path = format!("/v1/tracks/{track}/records");
        let run = server.post(&path, Some(by), &json!({ "durationSeconds": seconds }));
        assert_eq!(run.status, 201, "{}", run.text());
    }
    for gone in
        [articles::write(server, &mina, "gone"), posts::made(server, &mina, &posts::bicycle())]
            .iter()
            .zip(["articles", "posts"])
            .map(|(id, kind)| format!("/v1/{kind}/{id}"))
    {
        assert_eq!(server.delete(&gone, Some(&mina)).status, 204);
    }
    for id in [1, 2] {
        assert_eq!(server.get(&format!("/v1/markets/{id}")).status, 200);
        for by in [&mina, &other] {
            let liked = server.connect().json(
                "PUT",
                &format!("/v1/articles/{id}/like"),
                Some(by),
                &json!({}),
            );
            assert_eq!(liked.status, 200, "{}", liked.text());
        }
    }
    [mina, logged_out]
}

/// What a path answers on both sides, which must be the same.
fn same(file: &Server, copied: &Server, path: &str, by: Option<&Person>) -> Answer {
    let bearer = by.map(Person::bearer);
    let headers: Vec<_> = bearer.iter().map(|bearer| ("Authorization", bearer.as_str())).collect();
    let [one, other] = [file, copied].map(|server| server.get_with(path, &headers));
    assert_eq!(one.status, 200, "{path}: {}", one.text());
    assert_eq!(one.status, other.status, "{path}: {}", other.text());
    let counted = |answer: &Answer| {
        let mut body = answer.json();
        // Looking at a market is itself counted, a moment later.
        if let Some(body) = body.as_object_mut() {
            body.remove("viewCount");
        }
        body
    };
    assert_eq!(counted(&one), counted(&other), "{path}");
    one
}

/// All pages of a list; gives the ids of the first.
fn same_pages(file: &Server, copied: &Server, path: &str, by: Option<&Person>) -> Vec<i64> {
    let separator = if path.contains('?') { '&' } else { '?' };
    let first = format!("{path}{separator}limit=100");
    let (mut next, mut ids) = (first.clone(), Vec::new());
    for _ in 0..10 {
        let page = same(file, copied, &next, by).json();
        if ids.is_empty() {
            let items = page["items"].as_array().unwrap();
            ids = items.iter().filter_map(|item| item["id"].as_i64()).collect();
        }
        match page["nextCursor"].as_str() {
            Some(cursor) => next = format!("{first}&cursor={cursor}"),
            None => break,
        }
    }
    ids
}

fn same_answers(file: &Server, copied: &Server, mina: &Person) {
    for (list, detail) in [
        ("/v1/tracks?sort=length", "/v1/tracks/{}?detail=full"),
        ("/v1/tracks?near=37.5,127", "/v1/tracks/{}/records"),
        ("/v1/markets", "/v1/markets/{}"),
        ("/v1/posts", "/v1/posts/{}"),
        ("/v1/posts?sort=price", "/v1/posts/{}"),
        ("/v1/articles?sort=likes", "/v1/articles/{}"),
        ("/v1/articles?sort=newest", "/v1/articles/{}/comments"),
    ] {
        let ids = same_pages(file, copied, list, None);
        assert!(ids.len() > 10, "{list} has {} rows", ids.len());
        for id in ids.iter().take(40) {
            same(file, copied, &detail.replace("{}", &id.to_string()), Some(mina));
        }
    }
    same_pages(file, copied, &posts::listing(&[("state", "서울특별시"), ("sort", "-price")]), None);
    same_pages(file, copied, "/v1/schedules", Some(mina));
    for path in ["/v1/users/me", "/v1/locations", "/v1/categories"] {
        same(file, copied, path, Some(mina));
    }
}

#[test]
fn a_copied_store_answers_as_the_file_does_and_goes_on_from_there() {
    let (Filled { dir, mina, logged_out }, target) = (filled(), Target::new());
    let copied = target.copy(dir.path()).succeeds();
    for part in ["article_likes", "each was compared", "accounts.token_key", "token.key"] {
        assert!(copied.stdout.contains(part), "{part}: {}", copied.stdout);
    }
    let key = std::fs::read_to_string(dir.path().join("token.key")).unwrap();
    assert!(!copied.stdout.contains(key.trim()), "the key is printed");
    assert_eq!(copied.stderr, "");
    // A node on another machine: it has nothing but the key.
    let elsewhere = tempfile::tempdir().unwrap();
    let node = target.node(elsewhere.path()).set("accounts.token_key", key.trim()).start();
    let file = Setup::new().cheap_hash().data(dir.path()).start();
    same_answers(&file, &node, &mina);
    node.log_in("MINA");
    node.get_with("/v1/users/me", &[("Authorization", &logged_out.bearer())]).problem(401);
    // The key of a create that was done before, on both sides.
    let bearer = mina.bearer();
    let headers = [
        ("Content-Type", "application/json"),
        ("Authorization", bearer.as_str()),
        ("Idempotency-Key", "first"),
    ];
    let body = posts::bicycle().to_string();
    let [one, other] = [&file, &node]
        .map(|server| server.connect().send_body("POST", "/v1/posts", &headers, &body).json());
    assert_eq!(one["id"], other["id"]);
    // Ids go on, those of rows that were deleted included.
    let track: Value = serde_json::from_str(&TRACK.replace("둘레길", "새 길")).unwrap();
    for (path, body) in [
        ("/v1/tracks", &track),
        ("/v1/posts", &posts::with("town", json!("새로운동"))),
        ("/v1/articles", &json!({"title": "new", "content": "new"})),
        ("/v1/articles/1/comments", &json!({"content": "new"})),
        ("/v1/tracks/1/records", &json!({"durationSeconds": 1000})),
    ] {
        let [one, other] = [&file, &node].map(|server| server.post(path, Some(&mina), body));
        assert_eq!([one.status, other.status], [201, 201], "{path}: {}", other.text());
        assert_eq!(one.json()["id"], other.json()["id"], "{path}");
        assert!(path.contains("records") || one.json()["id"].is_i64(), "{path}: {}", one.text());
    }
    // The count that bounds schedules was copied.
    node.post("/v1/schedules", Some(&mina), &schedules::plan("one more", 40)).problem(409);
    let first = schedules::all(&node, &mina, 100)[0]["id"].as_i64().unwrap();
    assert_eq!(node.delete(&format!("/v1/schedules/{first}"), Some(&mina)).status, 204);
    schedules::made(&node, &mina, &schedules::plan("one more", 40));
    node.is_well();
}

/// To a server and back, and to another server, which then holds what the first one does.
#[test]
fn a_store_that_is_copied_back_holds_every_row_and_answers_as_before() {
    let (Filled { dir, mina, logged_out }, target) = (filled(), Target::new());
    target.copy(dir.path()).succeeds();
    let key = std::fs::read_to_string(dir.path().join("token.key")).unwrap();
    // What nodes have written since is copied back, too, and it is of one moment while they go on.
    let elsewhere = tempfile::tempdir().unwrap();
    let node = target.node(elsewhere.path()).set("accounts.token_key", key.trim()).start();
    let id = posts::made(&node, &mina, &posts::with("town", json!("새로운동")));
    let back = tempfile::tempdir().unwrap();
    let to = back.path().to_str().unwrap();
    let copy_back = || copy(Path::new(&target.url()), to);
    let copied = copy_back().succeeds();
    for part in ["article_likes", "each was compared", "accounts.token_key"] {
        assert!(copied.stdout.contains(part), "{part}: {}", copied.stdout);
    }
    assert_eq!(integrity(back.path()), "ok");
    copy_back().fails_with(6).complains(&["exists already"]);
    let file =
        Setup::new().cheap_hash().data(back.path()).set("accounts.token_key", key.trim()).start();
    same_answers(&file, &node, &mina);
    file.log_in("MINA");
    file.get_with("/v1/users/me", &[("Authorization", &logged_out.bearer())]).problem(401);
    assert_eq!(file.get(&format!("/v1/posts/{id}")).status, 200);
    let [one, other] = [&file, &node]
        .map(|server| posts::made(server, &mina, &posts::with("town", json!("다음동"))));
    assert_eq!(one, other, "ids go on");
    let article = json!({"title": "new", "content": "new"});
    let [one, other] =
        [&file, &node].map(|server| server.post("/v1/articles", Some(&mina), &article).json());
    assert_eq!(one["id"], other["id"], "ids of rows that were deleted are not given again");
    node.stop();
    file.stop();
    let second = Target::new();
    second.copy(back.path()).succeeds();
}

/// The mark of a table, locked: a copy that wants to move it waits.
struct Hold<'a> {
    target: &'a Target,
    session: mysql::Conn,
}

impl<'a> Hold<'a> {
    fn of(target: &'a Target, table: &str) -> Self {
        let mut session = target.session();
        let hold = format!(
            "SELECT count(*) FROM {}.madang_copy WHERE table_name = '{table}' FOR UPDATE",
            target.name
        );
        session.query_drop("START TRANSACTION").unwrap();
        assert_eq!(session.query_first(hold).unwrap(), Some(1), "{table}");
        Self { target, session }
    }

    /// Of this table, after the copy that waits for it has moved its mark once: locks are given in the order in which
    /// they were asked for.
    fn after_a_batch(mut self, table: &str) -> Self {
        self.waits_for("UPDATE madang_copy");
        std::thread::scope(|scope| {
            let next = scope.spawn(|| Self::of(self.target, table));
            self.waits_for("SELECT count(*) FROM copy_");
            self.session.query_drop("COMMIT").unwrap();
            next.join().unwrap()
        })
    }

    /// The session with a statement that begins so and waits.
    fn waits_for(&self, statement: &str) -> i64 {
        // A list of lock waits would not do: InnoDB does not renew it while it is read again and again.
        let name = &self.target.name;
        let waits = format!(
            "SELECT id FROM information_schema.processlist
             WHERE info LIKE '{statement}%' AND (db = '{name}' OR info LIKE '%{name}.%')
               AND time_ms > 100"
        );
        eventually("it waits for the mark", || self.target.number(&waits))
    }

    /// Kills the copy, which waits for the mark.
    fn kill(mut self, mut copy: Child) {
        let session = self.waits_for("UPDATE madang_copy");
        copy.kill().unwrap();
        copy.wait().unwrap();
        // The server would still carry out what it was sent.
        self.session.query_drop(format!("KILL {session}")).unwrap();
    }
}

fn refuses_to_serve(target: &Target, from: &Path) {
    let (data, url) = (from.to_str().unwrap(), format!("database.url={}", target.url()));
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data", data, "--set", &url];
    let refused = Madang::new(serve).fails_with(6);
    refused.complains(&["unfinished copy", "madang copy --from"]);
}

#[test]
fn a_copy_that_is_killed_goes_on_where_it_stopped_and_can_be_served_only_when_it_is_complete() {
    let Filled { dir, mina, .. } = filled();
    let from = dir.path();
    let copied = |target: &Target, table: &str| {
        let copied = format!("SELECT copied FROM {{}}.madang_copy WHERE table_name = '{table}'");
        target.number(&copied).unwrap()
    };
    // Another one where this thread was held up, and it has come to the posts meanwhile.
    let target = eventually("a copy that is killed before its first posts", || {
        let target = Target::new();
        let (mut copy, _home) = target.copy(from).spawn();
        let begun = "SELECT count(*) FROM {}.madang_copy WHERE table_name = ''";
        eventually("it has begun", || target.number(begun).filter(|begun| *begun == 1));
        copy.kill().unwrap();
        copy.wait().unwrap();
        (copied(&target, "posts") == 0).then_some(target)
    });
    let of = |table: &str| copied(&target, table);
    refuses_to_serve(&target, from);
    let hold = Hold::of(&target, "posts");
    let (copy, _home) = target.copy(from).spawn();
    hold.after_a_batch("posts").kill(copy);
    let posts = of("posts");
    assert!(0 < posts && posts < 6000, "{posts}");
    assert_eq!(target.number("SELECT count(*) FROM {}.posts"), Some(posts));
    refuses_to_serve(&target, from);
    for table in ["users", ""] {
        // Without a table it is the last word, of which nothing but that is missing.
        let hold = Hold::of(&target, table);
        let (copy, _home) = target.copy(from).spawn();
        hold.kill(copy);
        assert_eq!(of("users") > 20, table.is_empty());
    }
    refuses_to_serve(&target, from);
    let last = target.copy(from).succeeds();
    assert!(last.stdout.contains("were there from an earlier run"), "{}", last.stdout);
    let rows = |table| number(from, &format!("SELECT count(*) FROM {table}"));
    for table in ["posts", "article_likes", "markets", "regions", "idempotency_keys"] {
        let copied = target.number(&format!("SELECT count(*) FROM {{}}.{table}"));
        assert_eq!(copied, rows(table), "{table}");
    }

    let before = target.sums();
    assert!(before.len() > 27, "{before:?}");
    let again = target.copy(from).succeeds();
    assert!(again.stdout.contains("complete already"), "{}", again.stdout);
    assert_eq!(target.sums(), before);

    let node = target.node(from).start();
    let directory = from.to_owned();
    let key = std::fs::read_to_string(directory.join("token.key")).unwrap();
    let other = tempfile::tempdir().unwrap();
    std::fs::copy(directory.join("madang.db"), other.path().join("madang.db")).unwrap();
    let file = Setup::new().cheap_hash().data(other.path()).set("accounts.token_key", key.trim());
    let file = file.start();
    same_answers(&file, &node, &mina);
    // What the file has become since is another store.
    articles::write(&file, &mina, "later");
    file.stop();
    node.stop();
    let refused = target.copy(other.path()).fails_with(6);
    refused.complains(&["a copy of another store", "empty the database"]);
}

#[test]
fn a_database_that_holds_other_data_or_is_served_is_refused() {
    let (dir, target, elsewhere) = (stores::bundled(), Target::new(), tempfile::tempdir().unwrap());
    let node = target.node(elsewhere.path()).start();
    target.copy(dir.path()).fails_with(6).complains(&["in use", "stop the nodes"]);
    node.somebody("mina");
    node.stop();
    target.copy(dir.path()).fails_with(6).complains(&["holds other data (sessions, users"]);
    let foreign = Target::new();
    foreign.session().query_drop(format!("CREATE TABLE {}.notes (id INT)", foreign.name)).unwrap();
    foreign.copy(dir.path()).fails_with(6).complains(&["belongs to another program"]);
}

#[test]
fn a_directory_that_is_served_is_refused_with_the_pid_of_its_server() {
    let (dir, target) = (stores::bundled(), Target::new());
    let server = Setup::new().data(dir.path()).start();
    let refused = target.copy(dir.path()).fails_with(5);
    refused.complains(&["in use by process", &server.child.id().to_string()]);
    server.stop();
    target.copy(dir.path()).succeeds();
}

#[test]
fn an_address_that_is_none_is_wrong_usage_and_one_that_does_not_let_in_an_unusable_store() {
    let (dir, target) = (stores::bundled(), Target::new());
    let port = target.shared.server.port();
    let calm = |output: &Output| assert!(!output.stderr.contains("sesame"), "{}", output.stderr);
    for wrong in ["http://127.0.0.1/x", "mysql://root:sesame@127.0.0.1", "mysql://127.0.0.1:x/y"] {
        let refused = copy(dir.path(), wrong).fails_with(2);
        calm(refused.complains(&[]));
    }
    let stranger = format!("mysql://nobody:sesame@127.0.0.1:{port}/{}", target.name);
    calm(copy(dir.path(), &stranger).fails_with(6).complains(&["Access denied", "nobody"]));
    let absent = format!("mysql://root@127.0.0.1:{port}/absent");
    copy(dir.path(), &absent).fails_with(6).complains(&["Unknown database 'absent'"]);
    let empty = tempfile::tempdir().unwrap();
    let nothing = empty.path().join("nothing");
    target.copy(&nothing).fails_with(2).complains(&["holds no madang.db"]);
    assert!(!nothing.exists());
}
