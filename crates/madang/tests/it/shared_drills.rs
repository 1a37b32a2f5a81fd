//! Faults of what nodes share beside the database: the cache, the counter of attempts and the stream of likes.
//!
//! They run with `make drills`.

use crate::cluster_drills::{holds, only, stopped, two_nodes, until_answered, used_again};
use crate::cluster_load::{Load, Seen};
use crate::harness::database::supervisor;
use crate::harness::up::{Up, to};
use crate::harness::{Server, command, eventually};
use crate::nodes::Cluster;
use madang_stack::redis::Redis;
use madang_testing::drill;
use mysql::prelude::Queryable as _;
use rustix::process::Signal;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

const STREAM: [&str; 4] = ["--cache", "valkey", "--set", "likes.write=stream"];

/// What clients may be answered while a like or a look-up meets a server that is away.
const AWAY: [&str; 2] = ["503", "504"];

/// Likes that the API shows are in the tables, too, and counts are those of the rows.
fn folded(url: &str) {
    let mut session = mysql::Conn::new(url).unwrap();
    let wrong = "SELECT count(*) FROM articles a WHERE like_count <>
                 (SELECT count(*) FROM article_likes WHERE article_id = a.id)";
    eventually("counts are those of the rows", || {
        (session.query_first::<i64, _>(wrong).unwrap() == Some(0)).then_some(())
    });
}

/// The stream is empty, on all nodes that answer, and none has lost a like.
fn in_the_tables(up: &Up) {
    eventually("all likes are in the tables", || {
        (up.metric("madang_likes_pending") < 0.5).then_some(())
    });
    folded(up.line["database"].as_str().unwrap());
    assert!(up.metric("madang_likes_lost_total") < 0.5);
}

fn cli(url: &str, args: &[&str]) -> String {
    let output = Command::new("redis-cli").args(["-u", url]).args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn url<'u>(up: &'u Up, of: &str) -> &'u str {
    up.line[of].as_str().unwrap()
}

/// Kills one of the servers, and waits until it is there again.
fn killed(up: &Up, url: &str) {
    let pid = up.listening(url);
    to(pid, Signal::KILL);
    eventually("it is started again", || (up.listening(url) != pid).then_some(()));
    eventually("it answers", || {
        let output = Command::new("redis-cli").args(["-u", url, "PING"]).output().unwrap();
        output.stdout.starts_with(b"PONG").then_some(())
    });
}

#[test]
fn servers_that_are_killed_under_load_lose_nothing() {
    if !drill!() {
        return;
    }
    let up = two_nodes(&STREAM);
    let seen = Load::at(up.url).run(|_| {
        killed(&up, url(&up, "cache"));
        killed(&up, url(&up, "counts"));
        until_answered(&up);
    });
    holds("`kill -9` of Valkey (cache, and stream of likes), started again", &seen);
    only(&seen, &AWAY);
    in_the_tables(&up);
}

#[test]
fn servers_that_stand_still_under_load_lose_nothing() {
    if !drill!() {
        return;
    }
    let up = two_nodes(&STREAM);
    let seen = Load::at(up.url).run(|_| {
        std::thread::scope(|scope| {
            for of in ["cache", "counts"] {
                let pid = up.listening(url(&up, of));
                scope.spawn(move || stopped(pid, Duration::from_secs(10)));
            }
        });
        until_answered(&up);
    });
    holds("SIGSTOP of Valkey (cache, and stream of likes) for 10 s", &seen);
    only(&seen, &AWAY);
    in_the_tables(&up);
}

#[test]
fn a_cache_and_a_counter_that_are_emptied_under_load_change_no_answer() {
    if !drill!() {
        return;
    }
    let up = two_nodes(&["--cache", "valkey"]);
    let seen = Load::at(up.url).run(|seen| {
        for _ in 0..20 {
            let reads = seen.reads.load(SeqCst);
            for of in ["cache", "counts"] {
                cli(url(&up, of), &["FLUSHALL"]);
            }
            eventually("it is read", || (seen.reads.load(SeqCst) > reads + 50).then_some(()));
        }
    });
    holds("Valkey (cache, counter of attempts) emptied, 20 times", &seen);
    only(&seen, &[]);
}

/// The copy holds bodies that outlive the hour: they are old by what was written since, not by their age.
#[test]
fn a_cache_that_is_restored_from_an_old_copy_under_load_changes_no_answer() {
    if !drill!() {
        return;
    }
    let up = two_nodes(&["--cache", "valkey", "--set", "cache.ttl.posts=24h"]);
    let home = up.dir.path().join("cache");
    let seen = Load::at(up.url).run(|seen| {
        cli(url(&up, "cache"), &["SAVE"]);
        let copy = std::fs::read(home.join("dump.rdb")).unwrap();
        let writes = seen.writes.load(SeqCst);
        eventually("much is written since", || {
            (seen.writes.load(SeqCst) > writes + 300).then_some(())
        });
        for _ in 0..3 {
            std::fs::write(home.join("dump.rdb"), &copy).unwrap();
            killed(&up, url(&up, "cache"));
            assert_ne!(cli(url(&up, "cache"), &["DBSIZE"]), "0", "the copy is read");
            let reads = seen.reads.load(SeqCst);
            eventually("it is read", || (seen.reads.load(SeqCst) > reads + 500).then_some(()));
        }
    });
    holds("the cache restored from an old copy, 3 times", &seen);
    only(&seen, &[]);
}

#[test]
fn a_server_of_a_cluster_that_is_killed_under_load_changes_no_answer() {
    if !drill!() {
        return;
    }
    let up = two_nodes(&["--cache", "cluster"]);
    let seen = Load::at(up.url).run(|_| {
        for one in url(&up, "cache").split(',') {
            killed(&up, one);
        }
        until_answered(&up);
    });
    holds("`kill -9` of each server of a cache cluster, started again", &seen);
    only(&seen, &[]);
}

#[test]
fn likes_are_folded_whichever_node_dies() {
    if !drill!() {
        return;
    }
    let up = two_nodes(&STREAM);
    let seen = Load::at(up.url).run(|_| {
        for number in [1, 2, 1, 2] {
            let pid = up.node(number);
            to(pid, Signal::KILL);
            eventually("it is started again", || (up.node(number) != pid).then_some(()));
            until_answered(&up);
            used_again(&up, number);
        }
    });
    holds("`kill -9` of the nodes in turn, likes through the stream", &seen);
    only(&seen, &["502", "503", "504", "cut off"]);
    in_the_tables(&up);
}

/// A proxy in front of a server. When it is cut, bytes are held back and both connections stay open.
struct Way {
    address: SocketAddr,
    is_cut: Arc<AtomicBool>,
}

impl Way {
    fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        // It ends with the process, as do those of its connections.
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let (near, far) =
                    (near.unwrap(), TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap());
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let cut = Arc::clone(&cut);
                    std::thread::spawn(move || carry(from, to, &cut));
                }
            }
        });
        Self { address, is_cut }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        while is_cut.load(SeqCst) {
            // That it takes time is what a cut way is.
            std::thread::sleep(Duration::from_millis(5));
        }
        if to.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

/// A database and servers for two nodes that are asked directly.
struct Shared {
    cluster: Cluster,
    cache: Redis,
    counts: Redis,
    _dirs: [tempfile::TempDir; 2],
}

impl Shared {
    fn new() -> Self {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let cache = Redis::start(&supervisor(), dirs[0].path()).unwrap();
        let keeps = ["--appendonly", "yes", "--appendfsync", "always"];
        let counts = Redis::with(&supervisor(), dirs[1].path(), &keeps).unwrap();
        Self { cluster: Cluster::new(), cache, counts, _dirs: dirs }
    }

    fn node(&self, cache: &str, counts: &str, program: Command) -> Server {
        let setup = self.cluster.setup().set("cache.mode", "local+remote").set("cache.url", cache);
        let setup = setup.set("guard.url", counts).set("likes.url", counts);
        setup.set("likes.write", "stream").start_through(program)
    }

    fn checked(&self, nodes: &[Server; 2], load: &Load, fault: impl FnOnce(&Seen)) -> Seen {
        let seen = load.run(fault);
        for node in nodes {
            eventually("all likes are in the tables", || {
                (node.metric("madang_likes_pending", &[]) < 0.5).then_some(())
            });
            assert!(node.metric("madang_likes_lost_total", &[]) < 0.5);
        }
        folded(&self.cluster.database.url());
        seen
    }
}

fn program() -> Command {
    command::clean(command::program())
}

#[test]
fn a_node_that_is_cut_off_from_the_shared_servers_alone_answers_nothing_from_before() {
    if !drill!() {
        return;
    }
    let shared = Shared::new();
    let ways = [Way::to(shared.cache.port()), Way::to(shared.counts.port())];
    let through = |way: &Way| format!("redis://{}", way.address);
    let near = shared.node(&shared.cache.url(), &shared.counts.url(), program());
    let far = shared.node(&through(&ways[0]), &through(&ways[1]), program());
    let nodes = [near, far];
    let seen =
        shared.checked(&nodes, &Load::on(nodes.iter().map(|node| node.api).collect()), |seen| {
            for _ in 0..3 {
                for way in &ways {
                    way.is_cut.store(true, SeqCst);
                }
                let reads = seen.reads.load(SeqCst);
                eventually("both nodes are read", || {
                    (seen.reads.load(SeqCst) > reads + 500).then_some(())
                });
                for way in &ways {
                    way.is_cut.store(false, SeqCst);
                }
                let writes = seen.writes.load(SeqCst);
                eventually("both are written to", || {
                    (seen.writes.load(SeqCst) > writes + 100).then_some(())
                });
            }
        });
    holds("one node cut off from Valkey (cache, and stream of likes), 3 times", &seen);
    only(&seen, &AWAY);
}

#[test]
fn a_node_whose_clock_is_wrong_by_an_hour_answers_nothing_from_before() {
    if !drill!() {
        return;
    }
    let libraries = std::fs::read_dir("/usr/lib").unwrap().flatten();
    let faketime = libraries
        .map(|of_machine| of_machine.path().join("faketime/libfaketime.so.1"))
        .find(|file| file.exists())
        .expect("libfaketime is not installed (scripts/setup drills)");
    for (offset, accepts_tokens) in [("+1h", true), ("-1h", false)] {
        let shared = Shared::new();
        let node = |program| shared.node(&shared.cache.url(), &shared.counts.url(), program);
        let mut wrong = program();
        wrong.env("LD_PRELOAD", &faketime).env("FAKETIME", offset);
        wrong.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let nodes = [node(program()), node(wrong)];
        // What it answers is dated by its clock.
        let date = |node: &Server| node.get("/v1/posts").header("date").map(str::to_owned);
        assert_ne!(date(&nodes[0]), date(&nodes[1]), "the clock is right");
        // A node whose clock is behind refuses tokens of others: they were issued in its future.
        let both = Load::on(nodes.iter().map(|node| node.api).collect());
        let right = vec![nodes[0].api];
        let load = match accepts_tokens {
            true => both,
            false => Load { writes_to: right.clone(), checked_on: right, ..both },
        };
        let seen = shared.checked(&nodes, &load, |seen| {
            let writes = seen.writes.load(SeqCst);
            eventually("much is written", || {
                (seen.writes.load(SeqCst) > writes + 500).then_some(())
            });
        });
        holds(&format!("the clock of one node wrong by {offset}"), &seen);
        only(&seen, &[]);
    }
}
