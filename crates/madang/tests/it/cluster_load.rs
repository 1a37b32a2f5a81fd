//! Clients of several nodes, and what they see.
//!
//! Writers change posts of their own, to 1, 2, 3 and so on, create others, and like and unlike an article of their own;
//! readers read all posts. Whatever was acknowledged to anybody before a read began, the read must show, and at the end
//! all of it must be there. One process has all clients: then "before" is the order of one memory, and needs no clock.

use crate::harness::client::head;
use crate::harness::{Answer, Connection, PASSWORD, Person, eventually};
use crate::posts::with;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
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

/// A post that one writer changes, and an article that it likes when the number is odd.
struct Own {
    post: i64,
    article: i64,
    attempted: AtomicU64,
    acknowledged: AtomicU64,
    likes_attempted: AtomicU64,
    likes_acknowledged: AtomicU64,
}

impl Own {
    fn new(post: i64, article: i64) -> Self {
        let zero = AtomicU64::default;
        Self {
            post,
            article,
            attempted: zero(),
            acknowledged: zero(),
            likes_attempted: zero(),
            likes_acknowledged: zero(),
        }
    }
}

/// What the clients have seen.
#[derive(Default)]
pub struct Seen {
    pub reads: AtomicU64,
    pub writes: AtomicU64,
    pub older: AtomicU64,
    pub lost: AtomicU64,
    /// By what they were.
    pub errors: Mutex<BTreeMap<String, u64>>,
    /// Titles of posts that were created, with their ids.
    created: Mutex<Vec<(String, i64)>>,
    pub slowest: Mutex<Duration>,
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

    pub fn errors(&self) -> String {
        let errors = self.errors.lock().unwrap();
        let all: Vec<_> = errors.iter().map(|(what, count)| format!("{count} × {what}")).collect();
        if all.is_empty() { "none".to_owned() } else { all.join(", ") }
    }
}

/// Runs clients around `fault`, which is given time before and after it, and checks the data.
pub struct Load {
    pub writes_to: Vec<SocketAddr>,
    pub reads_from: Vec<SocketAddr>,
    /// Where all of it must be in the end.
    pub checked_on: Vec<SocketAddr>,
}

impl Load {
    pub fn at(address: SocketAddr) -> Self {
        Self::on(vec![address])
    }

    /// At all of these.
    pub fn on(all: Vec<SocketAddr>) -> Self {
        Self { writes_to: all.clone(), reads_from: all.clone(), checked_on: all }
    }

    pub fn run(&self, fault: impl FnOnce(&Seen)) -> Seen {
        let mina = registered(self.writes_to[0]);
        let owned: Vec<Own> = (0..WRITERS).map(|_| self.new_own(&mina)).collect();
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
            for (n, own) in owned.iter().enumerate() {
                let to = self.writes_to[n % self.writes_to.len()];
                let (seen, over, mina) = (&seen, &over, &mina);
                scope.spawn(move || write(to, own, mina, seen, over));
            }
            for n in 0..READERS {
                let from = self.reads_from[n % self.reads_from.len()];
                let (seen, over, owned) = (&seen, &over, &owned);
                scope.spawn(move || read(from, owned, seen, over));
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
        self.check(&owned, &mina, &seen);
        seen
    }

    fn new_own(&self, by: &Person) -> Own {
        let mut connection = Connection::open(self.writes_to[0]);
        let mut made = |path: &str, body: &Value| {
            let made = connection.json("POST", path, Some(by), body);
            assert_eq!(made.status, 201, "{}", made.text());
            made.json()["id"].as_i64().unwrap()
        };
        let post = made("/v1/posts", &with("price", json!(0)));
        Own::new(post, made("/v1/articles", &json!({ "title": "liked", "content": "or not" })))
    }

    /// All that was acknowledged is there, on whatever node.
    fn check(&self, owned: &[Own], by: &Person, seen: &Seen) {
        for from in &self.checked_on {
            let mut client = Client { to: *from, connection: None };
            let bearer = by.bearer();
            let mut get = |path: String| -> Value {
                eventually("all is there to be checked", || {
                    let request = head("GET", &path, &[("Authorization", &bearer)]);
                    let answer = client.ask(request.as_bytes(), "GET").ok()?;
                    ([200, 404].contains(&answer.status)).then(|| answer.json())
                })
            };
            let is_there = |is_there: bool| {
                seen.lost.fetch_add(u64::from(!is_there), SeqCst);
            };
            for own in owned {
                let price = get(format!("/v1/posts/{}", own.post))["price"].as_u64();
                let fits = own.acknowledged.load(SeqCst)..=own.attempted.load(SeqCst);
                is_there(price.is_some_and(|price| fits.contains(&price)));
                let likes = own.likes_acknowledged.load(SeqCst);
                let liked = &get(format!("/v1/articles/{}", own.article))["liked"];
                let is_known = likes == own.likes_attempted.load(SeqCst);
                is_there(!is_known || *liked == json!(likes % 2 == 1));
            }
            for (title, id) in seen.created.lock().unwrap().iter() {
                is_there(get(format!("/v1/posts/{id}"))["title"] == json!(title));
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

fn write(to: SocketAddr, own: &Own, by: &Person, seen: &Seen, over: &AtomicBool) {
    let mut client = Client { to, connection: None };
    let mut writes = |method: &str, path: &str, key: &str, body: &Value, wanted: u16| {
        let began = Instant::now();
        let sent = request(method, path, by, key, body);
        let answer = seen.note(client.ask(&sent, method), wanted);
        seen.took(began);
        seen.writes.fetch_add(u64::from(answer.is_some()), SeqCst);
        answer
    };
    let post = format!("/v1/posts/{}", own.post);
    let like = format!("/v1/articles/{}/like", own.article);
    while !over.load(SeqCst) {
        let price = own.attempted.fetch_add(1, SeqCst) + 1;
        if writes("PATCH", &post, "", &json!({ "price": price }), 200).is_some() {
            own.acknowledged.store(price, SeqCst);
        }
        let title = format!("{}-{price}", own.post);
        let created = writes("POST", "/v1/posts", &title, &with("title", json!(title)), 201);
        if let Some(made) = created {
            let id = made.json()["id"].as_i64().unwrap();
            seen.created.lock().unwrap().push((title, id));
        }
        let likes = own.likes_attempted.fetch_add(1, SeqCst) + 1;
        let method = if likes % 2 == 1 { "PUT" } else { "DELETE" };
        if writes(method, &like, "", &json!({}), 200).is_some() {
            own.likes_acknowledged.store(likes, SeqCst);
        }
    }
}

fn read(from: SocketAddr, owned: &[Own], seen: &Seen, over: &AtomicBool) {
    let mut client = Client { to: from, connection: None };
    while !over.load(SeqCst) {
        let own = &owned[fastrand::usize(..owned.len())];
        let floor = own.acknowledged.load(SeqCst);
        let began = Instant::now();
        let get = head("GET", &format!("/v1/posts/{}", own.post), &[]);
        if let Some(answer) = seen.note(client.ask(get.as_bytes(), "GET"), 200) {
            let price = answer.json()["price"].as_u64().unwrap();
            seen.older.fetch_add(u64::from(price < floor), SeqCst);
            seen.reads.fetch_add(1, SeqCst);
        }
        seen.took(began);
    }
}
