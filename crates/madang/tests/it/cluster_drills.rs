//! Faults of several nodes under load, and what clients see of them.
//!
//! Writers change posts of their own, to 1, 2, 3 and so on, and create others; readers read all of them. Whatever was
//! acknowledged to anybody before a read began, the read must show, and at the end all of it must be there. One
//! process has all clients: then "before" is the order of one memory, and needs no clock.
//!
//! Three drills run with the tests, all of them with `make drills`, which writes the table in docs/OPERATIONS.md.

use crate::harness::client::head;
use crate::harness::up::{Up, to};
use crate::harness::{Answer, Connection, PASSWORD, Person, eventually};
use crate::nodes::Cluster;
use crate::posts::with;
use madang_testing::drill;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Clients of each kind.
const WRITERS: usize = 4;
const READERS: usize = 8;

/// One client: a connection that is kept, and what came of its requests.
struct Client {
    to: SocketAddr,
    connection: Option<Connection>,
}

impl Client {
    /// Sends a request that may be sent twice. A connection that was closed while nobody used it is made anew, as any
    /// client does. What is wrong is said in a word.
    fn ask(&mut self, request: &[u8], method: &str) -> Result<Answer, String> {
        for attempt in 0.. {
            let is_new = self.connection.is_none();
            let mut connection = match self.connection.take() {
                Some(connection) => connection,
                None => match Connection::try_open(self.to) {
                    Ok(connection) => connection,
                    Err(_) => return Err("not connected".to_owned()),
                },
            };
            let sent = connection.try_send(request);
            let answer = catch_unwind(AssertUnwindSafe(|| connection.answer_to(method)));
            match answer {
                Ok(Some(answer)) if sent => {
                    if answer.header("connection") != Some("close") {
                        self.connection = Some(connection);
                    }
                    return Ok(answer);
                }
                _ if is_new || attempt > 0 => return Err("cut off".to_owned()),
                _ => {}
            }
        }
        unreachable!("the second attempt returns")
    }
}

/// A post that one writer changes.
struct Post {
    id: i64,
    attempted: AtomicU64,
    acknowledged: AtomicU64,
}

/// What the clients have seen.
#[derive(Default)]
struct Seen {
    reads: AtomicU64,
    writes: AtomicU64,
    older: AtomicU64,
    lost: AtomicU64,
    /// By what they were.
    errors: Mutex<BTreeMap<String, u64>>,
    /// Titles of posts that were created, with their ids.
    created: Mutex<Vec<(String, i64)>>,
    slowest: Mutex<Duration>,
}

impl Seen {
    fn error(&self, what: String) {
        *self.errors.lock().unwrap().entry(what).or_default() += 1;
    }

    fn note(&self, outcome: Result<Answer, String>, wanted: u16) -> Option<Answer> {
        match outcome {
            Ok(answer) if answer.status == wanted => return Some(answer),
            Ok(answer) => self.error(answer.status.to_string()),
            Err(what) => self.error(what),
        }
        None
    }

    fn took(&self, since: Instant) {
        let mut slowest = self.slowest.lock().unwrap();
        *slowest = since.elapsed().max(*slowest);
    }

    fn errors(&self) -> String {
        let errors = self.errors.lock().unwrap();
        let all: Vec<_> = errors.iter().map(|(what, count)| format!("{count} × {what}")).collect();
        if all.is_empty() { "none".to_owned() } else { all.join(", ") }
    }
}

/// Runs clients around `fault`, which is given time before and after it, and checks the data.
struct Load {
    writes_to: Vec<SocketAddr>,
    reads_from: Vec<SocketAddr>,
}

impl Load {
    fn at(address: SocketAddr) -> Self {
        Self { writes_to: vec![address], reads_from: vec![address] }
    }

    fn run(&self, fault: impl FnOnce(&Seen)) -> Seen {
        let mina = registered(self.writes_to[0]);
        let posts: Vec<Post> = (0..WRITERS).map(|_| self.new_post(&mina)).collect();
        let (seen, over) = (Seen::default(), AtomicBool::new(false));
        let enough = |more: u64| {
            let before = (seen.reads.load(SeqCst), seen.writes.load(SeqCst));
            eventually("clients are answered", || {
                let reads = seen.reads.load(SeqCst) - before.0;
                let writes = seen.writes.load(SeqCst) - before.1;
                (reads > 10 * more && writes > more).then_some(())
            });
        };
        std::thread::scope(|scope| {
            for (n, post) in posts.iter().enumerate() {
                let to = self.writes_to[n % self.writes_to.len()];
                let (seen, over, mina) = (&seen, &over, &mina);
                scope.spawn(move || write(to, post, mina, seen, over));
            }
            for n in 0..READERS {
                let from = self.reads_from[n % self.reads_from.len()];
                let (seen, over, posts) = (&seen, &over, &posts);
                scope.spawn(move || read(from, posts, seen, over));
            }
            // A panic here must not leave the clients running.
            let done = catch_unwind(AssertUnwindSafe(|| {
                enough(20);
                fault(&seen);
                enough(40);
            }));
            over.store(true, SeqCst);
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
        self.check(&posts, &seen);
        seen
    }

    fn new_post(&self, by: &Person) -> Post {
        let mut connection = Connection::open(self.writes_to[0]);
        let body = with("price", json!(0));
        let made = connection.json("POST", "/v1/posts", Some(by), &body);
        assert_eq!(made.status, 201, "{}", made.text());
        let id = made.json()["id"].as_i64().unwrap();
        Post { id, attempted: AtomicU64::new(0), acknowledged: AtomicU64::new(0) }
    }

    /// All that was acknowledged is there, on whatever node.
    fn check(&self, posts: &[Post], seen: &Seen) {
        for from in &self.reads_from {
            let mut client = Client { to: *from, connection: None };
            let mut get = |id: i64| -> Value {
                eventually("all is there to be checked", || {
                    let request = head("GET", &format!("/v1/posts/{id}"), &[]);
                    let answer = client.ask(request.as_bytes(), "GET").ok()?;
                    ([200, 404].contains(&answer.status)).then(|| answer.json())
                })
            };
            for post in posts {
                let price = get(post.id)["price"].as_u64();
                let fits = post.acknowledged.load(SeqCst)..=post.attempted.load(SeqCst);
                let is_there = price.is_some_and(|price| fits.contains(&price));
                seen.lost.fetch_add(u64::from(!is_there), SeqCst);
            }
            for (title, id) in seen.created.lock().unwrap().iter() {
                seen.lost.fetch_add(u64::from(get(*id)["title"] != json!(title)), SeqCst);
            }
        }
    }
}

fn registered(at: SocketAddr) -> Person {
    let mut connection = Connection::open(at);
    let nickname = format!("mina-{}", fastrand::u32(..));
    let body = json!({"nickname": nickname, "password": PASSWORD, "region_name": "서울특별시"});
    let answer = connection.json("POST", "/v1/auth/user/register", None, &body);
    assert_eq!(answer.status, 201, "{}", answer.text());
    let answer = connection.json("POST", "/v1/auth/user/login", None, &body);
    let token = answer.json()["token"].as_str().unwrap().to_owned();
    Person { nickname, token }
}

fn request(method: &str, path: &str, by: &Person, key: &str, body: &Value) -> Vec<u8> {
    let (bearer, body) = (by.bearer(), body.to_string());
    let length = body.len().to_string();
    let mut headers = vec![
        ("Content-Type", "application/json"),
        ("Authorization", bearer.as_str()),
        ("Content-Length", length.as_str()),
    ];
    if !key.is_empty() {
        headers.push(("Idempotency-Key", key));
    }
    [head(method, path, &headers).as_bytes(), body.as_bytes()].concat()
}

fn write(to: SocketAddr, post: &Post, by: &Person, seen: &Seen, over: &AtomicBool) {
    let mut client = Client { to, connection: None };
    let path = format!("/v1/posts/{}", post.id);
    while !over.load(SeqCst) {
        let began = Instant::now();
        let price = post.attempted.fetch_add(1, SeqCst) + 1;
        let change = request("PATCH", &path, by, "", &json!({ "price": price }));
        let changed = seen.note(client.ask(&change, "PATCH"), 200);
        if changed.is_some() {
            post.acknowledged.store(price, SeqCst);
            seen.writes.fetch_add(1, SeqCst);
        }
        seen.took(began);
        let title = format!("{}-{price}", post.id);
        let create = request("POST", "/v1/posts", by, &title, &with("title", json!(title)));
        if let Some(made) = seen.note(client.ask(&create, "POST"), 201) {
            let id = made.json()["id"].as_i64().unwrap();
            seen.created.lock().unwrap().push((title, id));
            seen.writes.fetch_add(1, SeqCst);
        }
        seen.took(began);
    }
}

fn read(from: SocketAddr, posts: &[Post], seen: &Seen, over: &AtomicBool) {
    let mut client = Client { to: from, connection: None };
    while !over.load(SeqCst) {
        let post = &posts[fastrand::usize(..posts.len())];
        let floor = post.acknowledged.load(SeqCst);
        let began = Instant::now();
        let get = head("GET", &format!("/v1/posts/{}", post.id), &[]);
        if let Some(answer) = seen.note(client.ask(get.as_bytes(), "GET"), 200) {
            let price = answer.json()["price"].as_u64().unwrap();
            seen.older.fetch_add(u64::from(price < floor), SeqCst);
            seen.reads.fetch_add(1, SeqCst);
        }
        seen.took(began);
    }
}

/// Writes a drill's row of the table where that is wanted, and asserts what holds in every one.
fn holds(fault: &str, seen: &Seen) {
    let (reads, writes) = (seen.reads.load(SeqCst), seen.writes.load(SeqCst));
    let (older, lost) = (seen.older.load(SeqCst), seen.lost.load(SeqCst));
    let slowest = seen.slowest.lock().unwrap().as_secs_f64();
    let errors = seen.errors();
    let row =
        format!("| {fault} | {reads} | {writes} | {errors} | {slowest:.1} | {older} | {lost} |\n");
    if let Some(table) = std::env::var_os("MADANG_DRILL_TABLE") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(table);
        file.unwrap().write_all(row.as_bytes()).unwrap();
    }
    sound(seen).unwrap_or_else(|()| panic!("older answers or lost writes: {row}"));
}

/// Nothing is older than it may be, and nothing lost.
fn sound(seen: &Seen) -> Result<(), ()> {
    let bad = seen.older.load(SeqCst) + seen.lost.load(SeqCst);
    if bad == 0 { Ok(()) } else { Err(()) }
}

/// Asserts that clients saw no other errors than these.
fn only(seen: &Seen, allowed: &[&str]) {
    let errors = seen.errors.lock().unwrap();
    let others: Vec<_> = errors.keys().filter(|what| !allowed.contains(&what.as_str())).collect();
    assert!(others.is_empty(), "{errors:?}");
}

fn two_nodes(more: &[&str]) -> Up {
    Up::start(&[&["--nodes", "2", "--database", "mariadb", "--balance", "nginx"], more].concat())
}

fn until_answered(up: &Up) {
    eventually("nginx and nodes answer", || {
        let all = std::iter::once(&up.url).chain(&up.nodes);
        let mut ready = all.map(|at| {
            let mut connection = Connection::try_open(*at).ok()?;
            connection.try_send(head("GET", "/health/ready", &[])).then_some(())?;
            connection.answer().filter(|answer| answer.status == 200)
        });
        ready.all(|answer| answer.is_some()).then_some(())
    });
}

#[test]
fn a_rolling_restart_under_load_is_no_error() {
    let up = two_nodes(&[]);
    let before = [up.node(1), up.node(2)];
    let mut said = String::new();
    let seen = Load::at(up.url).run(|_| {
        said = up.restart();
        // Right after it: nginx may still leave the last node out.
        up.restart();
    });
    assert!(said.contains("node-1 restarted") && said.contains("node-2 restarted"), "{said}");
    assert!(before[0] != up.node(1) && before[1] != up.node(2));
    holds("rolling restart of all nodes (`madang up restart`)", &seen);
    only(&seen, &[]);
}

#[test]
fn a_node_that_is_killed_under_load_loses_nothing() {
    let up = two_nodes(&[]);
    let keeper = up.nodes.iter().zip(&up.metrics).position(|(_, at)| {
        let page = Connection::open(*at).get("/metrics").text();
        crate::harness::sum(&page, "madang_cluster_housekeeper", &[]) > 0.5
    });
    let seen = Load::at(up.url).run(|_| {
        to(up.node(keeper.unwrap_or(0) + 1), Signal::KILL);
        until_answered(&up);
    });
    holds("`kill -9` of the node that does the housekeeping", &seen);
    // What was on its way through it.
    only(&seen, &["502", "504", "cut off"]);
}

#[test]
fn a_primary_that_is_killed_under_load_loses_nothing() {
    let up = two_nodes(&["--replicas", "1"]);
    let seen = Load::at(up.url).run(|_| {
        let pid = up.primary();
        to(pid, Signal::KILL);
        eventually("it is started again", || (up.primary() != pid).then_some(()));
        until_answered(&up);
    });
    holds("`kill -9` of the primary, started again", &seen);
    only(&seen, &["503", "504"]);
}

#[test]
fn a_replica_that_is_killed_under_load_is_no_error() {
    if !drill!() {
        return;
    }
    let up = two_nodes(&["--replicas", "1", "--set", "cache.mode=off"]);
    let used = |wanted: f64| {
        eventually("the replica is used by so many", || {
            ((up.metric("madang_replica_used") - wanted).abs() < 0.1).then_some(())
        });
    };
    used(2.0);
    let seen = Load::at(up.url).run(|_| {
        to(up.replica(), Signal::KILL);
        used(0.0);
        used(2.0);
    });
    holds("`kill -9` of the replica, started again", &seen);
    only(&seen, &[]);
}

/// Stops a process for a while, by the clock: that is the fault.
fn stopped(pid: rustix::process::Pid, time: Duration) {
    to(pid, Signal::STOP);
    std::thread::sleep(time);
    to(pid, Signal::CONT);
}

#[test]
fn a_node_that_stands_still_under_load_answers_nothing_from_before() {
    if !drill!() {
        return;
    }
    let up = two_nodes(&[]);
    let seen = Load::at(up.url).run(|_| {
        stopped(up.node(1), Duration::from_secs(10));
        until_answered(&up);
    });
    holds("SIGSTOP of a node for 10 s", &seen);
    only(&seen, &["502", "503", "504", "cut off"]);
}

#[test]
fn a_primary_that_stands_still_under_load_loses_nothing() {
    if !drill!() {
        return;
    }
    let up = two_nodes(&[]);
    let seen = Load::at(up.url).run(|_| {
        stopped(up.primary(), Duration::from_secs(5));
        until_answered(&up);
    });
    holds("SIGSTOP of the primary for 5 s", &seen);
    only(&seen, &["503", "504"]);
}

#[test]
fn nodes_that_are_stopped_one_by_one_are_no_error() {
    if !drill!() {
        return;
    }
    let up = two_nodes(&[]);
    let seen = Load::at(up.url).run(|_| {
        for number in 1..=2 {
            let pid = up.node(number);
            to(pid, Signal::TERM);
            eventually("it is started again", || (up.node(number) != pid).then_some(()));
            let asked = |at| {
                let page = Connection::try_open(at).ok()?.get("/metrics").text();
                Some(crate::harness::sum(&page, "madang_http_server_requests_total", &[]))
            };
            eventually("nginx sends it requests", || {
                asked(up.metrics[number - 1]).filter(|count| *count > 20.0)
            });
        }
    });
    holds("SIGTERM of the nodes one by one", &seen);
    only(&seen, &[]);
}

/// A way to the database that can be cut: then it keeps its connections, and nothing comes through.
struct Way {
    address: SocketAddr,
    is_cut: Arc<AtomicBool>,
}

impl Way {
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let way = Self { address: listener.local_addr().unwrap(), is_cut: Arc::default() };
        let is_cut = Arc::clone(&way.is_cut);
        // It ends with the process, as do those of its connections.
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let (near, far) = (near.unwrap(), TcpStream::connect(server).unwrap());
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let is_cut = Arc::clone(&is_cut);
                    std::thread::spawn(move || carry(from, to, &is_cut));
                }
            }
        });
        way
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        while is_cut.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[test]
fn a_node_that_is_cut_off_from_its_database_answers_nothing_from_before() {
    if !drill!() {
        return;
    }
    let cluster = Cluster::new();
    let way = Way::to(SocketAddr::from(([127, 0, 0, 1], cluster.database.port())));
    let url = format!("mysql://root@{}/test", way.address);
    let nodes = [cluster.node(), cluster.setup().set("database.url", &url).start()];
    let both = vec![nodes[0].api, nodes[1].api];
    let seen = Load { writes_to: both.clone(), reads_from: both }.run(|seen| {
        way.is_cut.store(true, SeqCst);
        eventually("its clients are refused", || {
            (seen.errors.lock().unwrap().get("503")? > &20).then_some(())
        });
        let reads = seen.reads.load(SeqCst);
        eventually("the other one serves", || {
            (seen.reads.load(SeqCst) > reads + 200).then_some(())
        });
        way.is_cut.store(false, SeqCst);
        eventually("it is ready", || (nodes[1].get("/health/ready").status == 200).then_some(()));
    });
    holds("a node's way to the database cut, without nginx", &seen);
    only(&seen, &["503", "504"]);
}

/// The checker finds what is to be found: a node that acknowledges too early.
#[test]
fn an_answer_from_before_fails_a_drill() {
    let cluster = Cluster::new();
    let patient = cluster.node();
    crate::nodes::run(&cluster.database, "UPDATE madang_cluster SET delay_ms = 0");
    let hasty = cluster.setup().set("cluster.delay", "0").start();
    let load = Load { writes_to: vec![hasty.api], reads_from: vec![patient.api] };
    let seen = load.run(|seen| {
        eventually("an old answer", || (seen.older.load(SeqCst) > 0).then_some(()));
    });
    assert!(sound(&seen).is_err(), "no answer was old: the drills prove nothing");
}
