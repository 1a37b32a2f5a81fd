//! Bodies in a server that all nodes share: it makes answers cheaper, and never older.

use crate::beside::{Beside, cli};
use crate::harness::database::supervisor;
use crate::harness::{Server, Setup, command, eventually};
use crate::nodes::{Cluster, older_than_acknowledged, price};
use crate::posts::{bicycle, made, patch};
use madang_stack::redis::Redis;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

const REMOTE: &[&str] = &["tier=\"remote\""];

fn setup(shared: &Beside, mode: &str) -> Setup {
    shared.cluster.setup().set("cache.mode", mode).set("cache.url", &shared.redis.url())
}

fn node(shared: &Beside, mode: &str) -> Server {
    connected(setup(shared, mode).start())
}

/// Waits until each thread of a node has its connection: look-ups before that go on without one.
fn connected(node: Server) -> Server {
    eventually("the shared cache is used", || {
        let skipped = node.metric("madang_cache_skipped_total", REMOTE);
        for page in 1..=8 {
            node.get(&format!("/v1/posts?limit={page}"));
        }
        (node.metric("madang_cache_skipped_total", REMOTE) - skipped < 0.5).then_some(())
    });
    node
}

fn hits(node: &Server) -> f64 {
    node.metric("madang_cache_hits_total", REMOTE)
}

/// Calls of the server that were not answered in time, or not made because of those.
fn missed(node: &Server) -> f64 {
    let names = ["madang_cache_failed_total", "madang_cache_skipped_total"];
    names.map(|name| node.metric(name, REMOTE)).iter().sum()
}

#[test]
fn a_body_that_one_node_has_made_serves_another_one() {
    let shared = Beside::new();
    for mode in ["remote", "local+remote"] {
        let nodes = [node(&shared, mode), node(&shared, mode)];
        let mina = nodes[0].somebody(if mode == "remote" { "mina" } else { "mira" });
        let path = format!("/v1/posts/{}", made(&nodes[0], &mina, &bicycle()));
        let first = nodes[0].get(&path);
        let before = hits(&nodes[1]);
        eventually("the other node finds it", || {
            let second = nodes[1].get(&path);
            assert_eq!(
                (second.text(), second.header("etag")),
                (first.text(), first.header("etag"))
            );
            (hits(&nodes[1]) > before).then_some(())
        });
        // From here on it is in this process, or not.
        let more = || {
            let before = hits(&nodes[1]);
            for _ in 0..10 {
                nodes[1].get(&path);
            }
            hits(&nodes[1]) - before
        };
        if mode == "remote" {
            // On a busy machine an answer may be late, and the database is asked.
            eventually("it is not in this process", || (more() > 4.5).then_some(()));
        } else {
            assert!(more() < 0.5, "it is in this process");
        }
    }
}

#[test]
fn no_answer_is_older_than_a_write_that_was_acknowledged_on_any_node() {
    let shared = Beside::new();
    let nodes = [node(&shared, "remote"), node(&shared, "local+remote")];
    let mina = nodes[0].somebody("mina");
    let id = made(&nodes[0], &mina, &bicycle());
    patch(&nodes[0], &mina, id, &json!({ "price": 0 }));
    eventually("bodies of the shared cache were among what was read", || {
        let (older, reads) = older_than_acknowledged(&[&nodes[0], &nodes[1]], &mina, id, 100);
        assert_eq!(older, 0, "of {reads} reads");
        (hits(&nodes[0]) > 100.0).then_some(())
    });
}

#[test]
fn a_node_that_starts_again_loads_little_of_what_others_have() {
    let shared = Beside::new();
    let one = node(&shared, "local+remote");
    let mina = one.somebody("mina");
    // What the shared cache answers too late is loaded.
    let loads = eventually("all answers of the shared cache come in time", || {
        let before = missed(&one);
        let posts: Vec<String> =
            (0..50).map(|_| format!("/v1/posts/{}", made(&one, &mina, &bicycle()))).collect();
        posts.iter().for_each(|path| drop(one.get(path)));
        // Whatever was written since the bodies were kept, they are new enough.
        made(&one, &mina, &bicycle());
        let other = node(&shared, "local+remote");
        let late = missed(&one) - before;
        let before = missed(&other);
        for path in &posts {
            assert_eq!(other.get(path).status, 200);
        }
        let loads = other.metric("madang_cache_loads_total", &["cache=\"posts\""]);
        (late + missed(&other) - before < 0.5).then_some(loads)
    });
    assert!(loads <= 5.0, "{loads} of 50 were loaded from the database");
}

#[test]
fn a_server_that_goes_back_in_time_or_is_emptied_makes_no_answer_older() {
    let shared = Beside::new();
    let node = node(&shared, "remote");
    let mina = node.somebody("mina");
    let id = made(&node, &mina, &bicycle());
    let path = format!("/v1/posts/{id}");
    let kept = || {
        let keys = cli(&shared.redis, &["KEYS", &format!("*:posts:*{id}*")]);
        keys.lines().filter(|key| !key.ends_with(":claim")).map(str::to_owned).next()
    };
    patch(&node, &mina, id, &json!({ "price": 1 }));
    let key = eventually("the body is kept", || {
        assert_eq!(price(&node.get(&path)), 1);
        kept()
    });
    assert_eq!(cli(&shared.redis, &["COPY", &key, "earlier"]), "1");
    patch(&node, &mina, id, &json!({ "price": 2 }));
    assert_eq!(price(&node.get(&path)), 2);
    let outdated = node.metric("madang_cache_outdated_total", REMOTE);
    eventually("it is looked at", || {
        assert_eq!(cli(&shared.redis, &["COPY", "earlier", &key, "REPLACE"]), "1");
        assert_eq!(price(&node.get(&path)), 2);
        (node.metric("madang_cache_outdated_total", REMOTE) > outdated).then_some(())
    });
    // Not a body at all, and nothing.
    cli(&shared.redis, &["SET", &key, "nonsense"]);
    assert_eq!(price(&node.get(&path)), 2);
    cli(&shared.redis, &["FLUSHALL"]);
    assert_eq!(price(&node.get(&path)), 2);
}

#[test]
fn without_the_server_everything_goes_on_and_it_is_used_again_when_it_is_back() {
    let Beside { cluster, redis: mut cache, dir: _dir } = Beside::new();
    let setup = cluster.setup().set("cache.mode", "remote").set("cache.url", &cache.url());
    let node = connected(setup.start());
    let mina = node.somebody("mina");
    let path = format!("/v1/posts/{}", made(&node, &mina, &bicycle()));
    let pid = i32::try_from(cache.pid()).unwrap();
    let signal = |signal| kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();

    // It accepts and never answers.
    signal(Signal::STOP);
    let began = Instant::now();
    // Asked each time, it would cost each of them 100 ms.
    for _ in 0..200 {
        assert_eq!(node.get(&path).status, 200);
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let is_down = || (node.metric("madang_cache_remote_up", &[]) < 0.5).then_some(());
    eventually("it is taken to be away", is_down);
    signal(Signal::CONT);
    let is_used = || {
        let before = hits(&node);
        assert_eq!(node.get(&path).status, 200);
        (hits(&node) > before).then_some(())
    };
    eventually("it is used again", is_used);

    // It is gone, and comes back empty.
    signal(Signal::KILL);
    for _ in 0..50 {
        assert_eq!(node.get(&path).status, 200);
    }
    cache.restart(&supervisor()).unwrap();
    eventually("the new one is used", is_used);
    assert!(node.metric("madang_cache_remote_up", &[]) > 0.5);
}

#[test]
fn a_full_server_takes_no_bodies_and_still_serves_what_it_has() {
    let shared = Beside::new();
    let node = node(&shared, "remote");
    let mina = node.somebody("mina");
    let path = format!("/v1/posts/{}", made(&node, &mina, &bicycle()));
    eventually("it is kept", || {
        node.get(&path);
        (hits(&node) > 0.5).then_some(())
    });
    cli(&shared.redis, &["CONFIG", "SET", "maxmemory", "1"]);
    let other = format!("/v1/posts/{}", made(&node, &mina, &bicycle()));
    for _ in 0..10 {
        assert_eq!(node.get(&other).status, 200);
    }
    eventually("what is there is used", || {
        let before = hits(&node);
        assert_eq!(node.get(&path).status, 200);
        (hits(&node) > before).then_some(())
    });
    assert!(node.metric("madang_cache_remote_up", &[]) > 0.5);
}

#[test]
fn a_server_that_cannot_be_used_is_named_with_the_reason_and_the_node_serves() {
    let cluster = Cluster::new();
    let dir = tempfile::tempdir().unwrap();
    let cache = Redis::start(&supervisor(), dir.path()).unwrap();
    let secret = tempfile::tempdir().unwrap();
    let replica = tempfile::tempdir().unwrap();
    let follows = format!("127.0.0.1 {}", cache.port());
    let replica = Redis::with(&supervisor(), replica.path(), &["--replicaof", &follows]).unwrap();
    let closed = Redis::start(&supervisor(), secret.path()).unwrap();
    cli(&closed, &["ACL", "SETUSER", "mina", "on", ">right", "~*", "+get", "+pttl"]);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = nobody.local_addr().unwrap();
    let deaf = madang_stack::PortReservation::new().unwrap();
    let free = format!("127.0.0.1:{}", deaf.port());
    let at = |login: &str| format!("redis://{login}127.0.0.1:{}", closed.port());
    let cases = [
        (replica.url(), "the server is a replica, which takes no writes; name its primary"),
        (at("mina:wrong@"), "Password authentication failed"),
        (format!("redis://{silent}"), "no connection within 1s"),
        (format!("redis://{free}"), "Connection refused"),
    ];
    for (url, reason) in cases {
        let setup = cluster.setup().set("cache.mode", "local+remote").set("cache.url", &url);
        let node = setup.start();
        eventually(reason, || {
            assert_eq!(node.get("/v1/posts").status, 200);
            node.log().contains(reason).then_some(())
        });
        assert!(!node.log().contains("wrong@"), "the password is in the log");
    }
    // Allowed to read and not to write.
    let setup = cluster.setup().set("cache.mode", "remote").set("cache.url", &at("mina:right@"));
    let node = setup.start();
    let mina = node.somebody("mina");
    let path = format!("/v1/posts/{}", made(&node, &mina, &bicycle()));
    eventually("the missing permission is named", || {
        assert_eq!(node.get(&path).status, 200);
        node.log().contains("no permissions to run the 'set' command").then_some(())
    });
}

/// Whoever claims a load gives the claim back: otherwise the next load, after a write, would look for the body of a load
/// that nobody does, a look each 10 ms.
#[test]
fn a_load_after_a_write_waits_for_nobody() {
    let shared = Beside::new();
    let node = node(&shared, "remote");
    let mina = node.somebody("mina");
    let id = made(&node, &mina, &bicycle());
    let path = format!("/v1/posts/{id}");
    cli(&shared.redis, &["CONFIG", "RESETSTAT"]);
    for write in 1..=20 {
        patch(&node, &mina, id, &json!({ "price": write }));
        assert_eq!(price(&node.get(&path)), write);
    }
    let stats = cli(&shared.redis, &["INFO", "commandstats"]);
    let gets = stats.split("cmdstat_get:calls=").nth(1).unwrap().split(',').next().unwrap();
    let gets: u32 = gets.parse().unwrap();
    // A look that the server does not answer in time is none of a load that nobody does.
    let missed = missed(&node);
    let looks = f64::from(gets) + missed;
    assert!(looks >= 20.0 && gets < 100, "{gets} looks, {missed} failed, for 20 reads");
}

/// The rights that docs/OPERATIONS.md names are enough.
#[test]
fn a_user_with_the_rights_of_the_manual_can_be_used() {
    let shared = Beside::new();
    let manual = include_str!("../../../../docs/OPERATIONS.md");
    let rights = manual.split("user needs are `").nth(1).unwrap().split('`').next().unwrap();
    let user = ["ACL", "SETUSER", "mina", "on", ">right"].into_iter().chain(rights.split(' '));
    assert_eq!(cli(&shared.redis, &user.collect::<Vec<_>>()), "OK");
    let url = format!("redis://mina:right@127.0.0.1:{}", shared.redis.port());
    let node = connected(
        shared.cluster.setup().set("cache.mode", "remote").set("cache.url", &url).start(),
    );
    let mina = node.somebody("mina");
    let path = format!("/v1/posts/{}", made(&node, &mina, &bicycle()));
    eventually("a body is kept and found", || {
        assert_eq!(node.get(&path).status, 200);
        (hits(&node) > 0.5).then_some(())
    });
    assert!(!node.log().contains("no permissions"), "{}", node.log());
}

/// Nodes in front of a cluster of three: each body is on one of its servers.
#[test]
fn a_cluster_is_used_and_the_rest_of_it_when_one_server_is_gone() {
    let database = Cluster::new();
    let dir = tempfile::tempdir().unwrap();
    let mut servers = Redis::cluster(&supervisor(), dir.path(), 3, &[]).unwrap();
    let urls: Vec<String> = servers.iter().map(Redis::url).collect();
    let setup = || {
        let setup = database.setup().set("cache.mode", "remote");
        setup.set("cache.url", &urls.join(","))
    };
    let nodes = [connected(setup().start()), connected(setup().start())];
    let mina = nodes[0].somebody("mina");
    let posts: Vec<String> =
        (0..30).map(|_| format!("/v1/posts/{}", made(&nodes[0], &mina, &bicycle()))).collect();
    posts.iter().for_each(|path| drop(nodes[0].get(path)));
    eventually("what one node has made serves the other", || {
        let before = hits(&nodes[1]);
        for path in &posts {
            assert_eq!(nodes[1].get(path).status, 200);
        }
        (hits(&nodes[1]) - before > 29.5).then_some(())
    });
    for server in &servers {
        let keys: u32 = cli(server, &["DBSIZE"]).parse().unwrap();
        assert!(keys > 0, "one of the three has nothing");
    }
    let id = made(&nodes[0], &mina, &bicycle());
    patch(&nodes[0], &mina, id, &json!({ "price": 0 }));
    let (older, reads) = older_than_acknowledged(&[&nodes[0], &nodes[1]], &mina, id, 30);
    assert_eq!(older, 0, "of {reads} reads");

    let pid = Pid::from_raw(i32::try_from(servers[1].pid()).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    for path in &posts {
        assert_eq!(nodes[1].get(path).status, 200);
    }
    let is_used = |least: f64| {
        let before = hits(&nodes[1]);
        for path in &posts {
            assert_eq!(nodes[1].get(path).status, 200);
        }
        (hits(&nodes[1]) - before > least).then_some(())
    };
    eventually("the other two are used", || is_used(4.5));
    servers[1].restart(&supervisor()).unwrap();
    eventually("all three are used again", || is_used(29.5));
}

/// With TLS, by an authority that `SSL_CERT_FILE` names; and not by one that nobody has named.
#[test]
fn a_server_is_used_over_tls_if_its_certificate_is_trusted() {
    let cluster = Cluster::new();
    let dir = tempfile::tempdir().unwrap();
    let openssl = |words: &str| {
        let made = Command::new("openssl").args(words.split(' ')).current_dir(dir.path()).output();
        let made = made.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
    openssl(&format!("req -x509 {key} -keyout ca.key -out ca.crt -subj /CN=authority"));
    openssl(&format!(
        "req -x509 {key} -CA ca.crt -CAkey ca.key -keyout own.key -out own.crt -subj /CN=cache \
         -addext basicConstraints=CA:FALSE -addext subjectAltName=IP:127.0.0.1"
    ));
    let tls = madang_stack::PortReservation::new().unwrap();
    let port = tls.port().to_string();
    let args = ["--tls-port", &port, "--tls-cert-file", "own.crt", "--tls-key-file", "own.key"];
    let args = [&args[..], &["--tls-ca-cert-file", "ca.crt", "--tls-auth-clients", "no"]].concat();
    let _cache = Redis::with(&supervisor(), dir.path(), &args).unwrap();
    let setup = || {
        let setup = cluster.setup().set("cache.mode", "remote");
        setup.set("cache.url", &format!("rediss://127.0.0.1:{port}"))
    };
    let mut trusting = command::clean(command::program());
    trusting.env("SSL_CERT_FILE", dir.path().join("ca.crt"));
    let node = connected(setup().start_through(trusting));
    let mina = node.somebody("mina");
    let path = format!("/v1/posts/{}", made(&node, &mina, &bicycle()));
    eventually("a body is kept and found", || {
        assert_eq!(node.get(&path).status, 200);
        (hits(&node) > 0.5).then_some(())
    });
    drop(node);
    let node = setup().start();
    eventually("the certificate is refused, and the node serves", || {
        assert_eq!(node.get(&path).status, 200);
        node.log().to_lowercase().contains("certificate").then_some(())
    });
}

#[test]
fn settings_that_do_not_go_together_are_refused() {
    let refused = |pairs: &[&str]| {
        let mut args = vec!["config"];
        pairs.iter().for_each(|pair| args.extend(["--set", pair]));
        crate::harness::Madang::new(args).fails_with(2)
    };
    refused(&["cache.mode=remote"]).complains(&["cache.mode = remote", "needs `cache.url`"]);
    refused(&["cache.mode=local+remote", "cache.url=redis://127.0.0.1:1"])
        .complains(&["needs `database.url`"]);
    refused(&["cache.url=127.0.0.1:1"]).complains(&["cache.url", "redis://"]);
    refused(&["cluster.poll=20ms", "database.url=mysql://u:p@127.0.0.1:1/d"])
        .complains(&["cluster.poll = 20ms", "needs `cluster.delay`"]);
    refused(&["log.access=x"]).complains(&["accepted: off, stdout or stderr"]);
}
