//! Likes through a stream in Valkey: what is acknowledged gets into the tables, whatever stops in between.

use crate::accounts::log_in;
use crate::articles::{read, write};
use crate::beside::{Beside, cli};
use crate::harness::database::supervisor;
use crate::harness::{Connection, Madang, Person, Server, Setup, eventually};
use crate::likes::ask;
use crate::nodes::KEY;
use crate::shared_guard::compared;
use madang_stack::redis::Redis;
use mysql::prelude::Queryable as _;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};

fn setup(shared: &Beside) -> Setup {
    shared.cluster.setup().set("likes.write", "stream").set("likes.url", &shared.redis.url())
}

fn nodes(shared: &Beside) -> [Server; 2] {
    [setup(shared).start(), setup(shared).start()]
}

/// Waits until all that was acknowledged is in the tables.
fn folded(shared: &Beside) {
    let waiting = "local n = 0
        for _, key in ipairs(redis.call('KEYS', '*:stream')) do n = n + redis.call('XLEN', key) end
        return n";
    eventually("the stream is empty", || {
        (shared.cli(&["EVAL", waiting, "0"]) == "0").then_some(())
    });
    let wrong = "SELECT count(*) FROM articles a WHERE like_count <>
                 (SELECT count(*) FROM article_likes WHERE article_id = a.id)";
    assert_eq!(shared.number(wrong), 0, "counts are those of the rows");
}

/// Waits for a node that folds and cannot have the positions: what is liked from now on is not in its round.
fn held_up(shared: &Beside) {
    let held = "SELECT count(*) FROM information_schema.processlist
                WHERE info LIKE 'UPDATE like_positions%'";
    eventually("the node is held up", || (shared.number(held) == 1).then_some(()));
}

fn lost(node: &Server) -> u64 {
    node.metric("madang_likes_lost_total", &[]) as u64
}

/// The answer to a like, if it was acknowledged.
fn liked(connection: &mut Connection, method: &str, id: i64, by: &Person) -> Option<(bool, i64)> {
    let answer = ask(connection, method, id, by);
    match answer.status {
        200 => {
            let body = answer.json();
            Some((body["liked"].as_bool().unwrap(), body["likeCount"].as_i64().unwrap()))
        }
        503 | 504 => None,
        _ => panic!("{} {}", answer.status, answer.text()),
    }
}

#[test]
fn what_one_node_acknowledges_the_other_one_answers_at_once() {
    let shared = Beside::new();
    let nodes = nodes(&shared);
    let (mina, juno) = (nodes[0].somebody("mina"), nodes[1].somebody("juno"));
    let id = write(&nodes[0], &mina, "liked");
    let mut connections = [nodes[0].connect(), nodes[1].connect()];
    let mut like = |node: usize, method, by| liked(&mut connections[node], method, id, by);
    assert_eq!(like(0, "PUT", &mina), Some((true, 1)));
    assert_eq!(like(1, "PUT", &mina), Some((true, 1)), "sent again, it changes nothing");
    assert_eq!(like(1, "POST", &juno), Some((true, 2)));
    for node in &nodes {
        assert_eq!(read(node, id, Some(&juno)).json()["liked"], true);
        assert_eq!(read(node, id, None).json()["likeCount"], 2);
    }
    assert_eq!(like(0, "POST", &juno), Some((false, 1)));
    assert_eq!(like(0, "DELETE", &juno), Some((false, 1)));
    assert_eq!(read(&nodes[1], id, Some(&juno)).json()["liked"], false);
    folded(&shared);
    assert_eq!(shared.number("SELECT count(*) FROM article_likes"), 1);
    // A deleted article has none, also where the stream still knows it.
    let path = format!("/v1/articles/{id}");
    let bearer = mina.bearer();
    let gone = nodes[0].connect().request("DELETE", &path, &[("Authorization", &bearer)]);
    assert_eq!(gone.status, 204);
    eventually("the stream learns of it", || {
        let answer = ask(&mut nodes[1].connect(), "POST", id, &juno);
        (answer.status == 404).then_some(())
    });
    assert_eq!(shared.number("SELECT count(*) FROM article_likes"), 0);
}

/// 64 clients, one for each pair of eight people and eight articles, change likes on both nodes; in the end each pair is
/// as its client was answered last. Answers how many likes there are, and how many changes had to be repeated because
/// they were refused or their outcome was unknown.
fn end_as_a_model_does(nodes: &[Server; 2]) -> (i64, usize) {
    end_as_a_model_does_after(nodes, &|| true)
}

/// The same, and each goes on, for a hundred times as long at most, until something has happened.
fn end_as_a_model_does_after(
    nodes: &[Server; 2],
    has_happened: &(dyn Fn() -> bool + Sync),
) -> (i64, usize) {
    let repeated = AtomicUsize::new(0);
    let people: Vec<_> = (0..8).map(|n| nodes[0].somebody(&format!("user-{n}"))).collect();
    let ids: Vec<_> = (0..8).map(|n| write(&nodes[0], &people[0], &format!("a {n}"))).collect();
    let ends: Vec<bool> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..64)
            .map(|pair: usize| {
                let (nodes, person, id) = (nodes, &people[pair % 8], ids[pair / 8]);
                let repeated = &repeated;
                scope.spawn(move || {
                    let (mut random, mut state) = (fastrand::Rng::with_seed(pair as u64), false);
                    let mut connections = [nodes[0].connect(), nodes[1].connect()];
                    for round in 0..2000 {
                        if round >= 20 && has_happened() {
                            break;
                        }
                        let method = ["PUT", "DELETE", "POST"][random.usize(..3)];
                        state = match method {
                            "PUT" => true,
                            "DELETE" => false,
                            _ => !state,
                        };
                        let node = &mut connections[random.usize(..2)];
                        let answer = liked(node, method, id, person).unwrap_or_else(|| {
                            repeated.fetch_add(1, SeqCst);
                            let method = if state { "PUT" } else { "DELETE" };
                            eventually("it is taken", || liked(node, method, id, person))
                        });
                        assert_eq!(answer.0, state);
                    }
                    state
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    for (at, id) in ids.iter().enumerate() {
        let likes = ends[8 * at..][..8].iter().filter(|end| **end).count();
        assert_eq!(read(&nodes[at % 2], *id, None).json()["likeCount"], likes);
    }
    (ends.iter().filter(|end| **end).count() as i64, repeated.into_inner())
}

/// Nothing has failed, so nearly none of the 1,280 changes had to be repeated: a machine that stops for longer than the
/// server has for its answer may fail what was under way just then, one change of each client.
fn few(repeated: usize) {
    assert!(repeated <= 2 * 64, "{repeated} changes repeated");
}

#[test]
fn clients_of_two_nodes_on_many_pairs_end_as_a_model_of_them_does() {
    let shared = Beside::new();
    let nodes = nodes(&shared);
    let over = AtomicBool::new(false);
    let rows = std::thread::scope(|scope| {
        // Without the lease both nodes fold the same entries at the same time.
        scope.spawn(|| {
            while !over.load(SeqCst) {
                let release = "for _, key in ipairs(redis.call('KEYS', '*:folds')) do redis.call('DEL', key) end";
                shared.cli(&["EVAL", release, "0"]);
            }
        });
        let ended = std::panic::catch_unwind(AssertUnwindSafe(|| end_as_a_model_does(&nodes)));
        over.store(true, SeqCst);
        let (rows, repeated) = ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        few(repeated);
        rows
    });
    folded(&shared);
    assert_eq!(shared.number("SELECT count(*) FROM article_likes"), rows);
}

/// As documented, with its mistakes mended: both nodes agree at once, and the tables follow.
#[test]
fn a_queue_beside_a_server_agrees_on_both_nodes_and_loses_only_what_a_crash_finds_unwritten() {
    let shared = Beside::new();
    let node = |flush: &str| {
        let queue = setup(&shared).set("likes.write", "queue").set("likes.queue_flush", flush);
        queue.start()
    };
    let nodes = [node("50ms"), node("50ms")];
    let (rows, repeated) = end_as_a_model_does(&nodes);
    few(repeated);
    let tables = || shared.number("SELECT count(*) FROM article_likes");
    for node in &nodes {
        eventually("all is written", || {
            (node.metric("madang_likes_pending", &[]) < 0.5).then_some(())
        });
    }
    assert_eq!(tables(), rows);
    let wrong = "SELECT count(*) FROM articles a WHERE like_count <>
                 (SELECT count(*) FROM article_likes WHERE article_id = a.id)";
    assert_eq!(shared.number(wrong), 0, "counts are those of the rows");
    assert_eq!(shared.cli(&["EVAL", "return #redis.call('KEYS', '*:stream')", "0"]), "0");

    let mut slow = node("1h");
    let mina = slow.somebody("mina");
    let id = write(&slow, &mina, "liked");
    assert_eq!(liked(&mut slow.connect(), "PUT", id, &mina), Some((true, 1)));
    assert_eq!(read(&nodes[0], id, Some(&mina)).json()["liked"], true, "the other node knows");
    slow.signalled_until_it_ends(Signal::KILL);
    assert_eq!(tables(), rows, "what it had not written is lost");
    let stopped = node("1h");
    let other = write(&stopped, &mina, "liked, too");
    assert_eq!(liked(&mut stopped.connect(), "POST", other, &mina), Some((true, 1)));
    stopped.stop();
    assert_eq!(tables(), rows + 1, "a stop writes it");
}

/// Slots of the stream go round the servers of a cluster, key by key, while clients change likes.
#[test]
fn a_cluster_that_is_being_resharded_answers_nothing_from_before() {
    let shared = Beside::new();
    let dir = tempfile::tempdir().unwrap();
    let cluster = Redis::cluster(&supervisor(), dir.path(), 3, &[]).unwrap();
    let urls = cluster.iter().map(Redis::url).collect::<Vec<_>>().join(",");
    let node = || setup(&shared).set("likes.url", &urls).start();
    let nodes = [node(), node()];
    let (over, moved) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (rows, repeated) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(SeqCst) {
                moved.fetch_add(move_slots(&cluster), SeqCst);
            }
        });
        let enough = || moved.load(SeqCst) >= 16;
        let load = || end_as_a_model_does_after(&nodes, &enough);
        let ended = std::panic::catch_unwind(AssertUnwindSafe(load));
        over.store(true, SeqCst);
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let moved = moved.into_inner();
    println!("{moved} slots moved, {repeated} changes repeated");
    assert!(moved >= 16, "{moved}");
    eventually("all likes are in the tables", || {
        (shared.number("SELECT count(*) FROM article_likes") == rows).then_some(())
    });
    for node in &nodes {
        assert_eq!(lost(node), 0);
    }
}

/// Moves each slot that has keys to the next server, and answers how many.
fn move_slots(cluster: &[Redis]) -> usize {
    let names: Vec<_> = cluster.iter().map(|server| cli(server, &["CLUSTER", "MYID"])).collect();
    let mut moved = 0;
    for (from, source) in cluster.iter().enumerate() {
        let keys = cli(source, &["--scan"]);
        let slots = keys.lines().map(|key| cli(source, &["CLUSTER", "KEYSLOT", key]));
        for slot in slots.collect::<BTreeSet<_>>() {
            let to = (from + 1) % cluster.len();
            let port = cluster[to].port().to_string();
            let set = |server, what: &[&str]| {
                cli(server, &[&["CLUSTER", "SETSLOT", slot.as_str()], what].concat())
            };
            set(&cluster[to], &["IMPORTING", &names[from]]);
            set(source, &["MIGRATING", &names[to]]);
            loop {
                let key = cli(source, &["CLUSTER", "GETKEYSINSLOT", &slot, "1"]);
                if key.is_empty() {
                    break;
                }
                cli(source, &["MIGRATE", "127.0.0.1", &port, "", "0", "1000", "KEYS", &key]);
            }
            for server in [&cluster[to], source, &cluster[(from + 2) % cluster.len()]] {
                assert_eq!(set(server, &["NODE", &names[to]]), "OK");
            }
            moved += 1;
        }
    }
    moved
}

#[test]
fn a_cluster_of_three_takes_likes_and_counts_attempts() {
    let shared = Beside::new();
    let dir = tempfile::tempdir().unwrap();
    let cluster = Redis::cluster(&supervisor(), dir.path(), 3, &[]).unwrap();
    let urls = cluster.iter().map(Redis::url).collect::<Vec<_>>().join(",");
    let node = || setup(&shared).set("likes.url", &urls).set("guard.url", &urls).start();
    let nodes = [node(), node()];
    let (rows, repeated) = end_as_a_model_does(&nodes);
    few(repeated);
    for node in &nodes {
        eventually("all likes are in the tables", || {
            (node.metric("madang_likes_pending", &[]) < 0.5
                && shared.number("SELECT count(*) FROM article_likes") == rows)
                .then_some(())
        });
    }
    assert_eq!(compared(&nodes, 40), 10);
    // Without one of three the others go on. Which articles are on it differs each time.
    let mina = nodes[0].somebody("mina");
    let ids: Vec<_> = (0..16).map(|n| write(&nodes[0], &mina, &format!("b {n}"))).collect();
    let mut connection = nodes[1].connect();
    for id in &ids {
        assert_eq!(liked(&mut connection, "PUT", *id, &mina), Some((true, 1)));
    }
    let keys = cli(&cluster[0], &["--scan"]);
    let is_lost = |id: &i64| keys.lines().any(|key| key.ends_with(&format!(":{id}")));
    let (lost, kept): (Vec<i64>, Vec<i64>) = ids.iter().partition(|id| is_lost(id));
    println!("{} of {} articles are on the server that is killed", lost.len(), ids.len());
    assert!(!lost.is_empty() && !kept.is_empty());
    kill_process(Pid::from_raw(cluster[0].pid().cast_signed()).unwrap(), Signal::KILL).unwrap();
    eventually("it is gone", || cluster[0].exit());
    eventually("likes of the other parts are taken", || {
        let answers = kept.iter().map(|id| liked(&mut connection, "PUT", *id, &mina));
        answers.collect::<Vec<_>>().iter().all(|answer| *answer == Some((true, 1))).then_some(())
    });
    let still = lost.iter().filter_map(|id| liked(&mut connection, "PUT", *id, &mina));
    assert_eq!(still.count(), 0);
}

/// The rights that docs/OPERATIONS.md names are enough, and what is written when a node ends is all of it.
#[test]
fn the_rights_that_are_documented_are_enough_and_the_last_node_empties_the_stream() {
    let page = include_str!("../../../../docs/OPERATIONS.md");
    let rights: Vec<_> =
        page.split('`').filter(|text| text.starts_with("~") && text.contains("+eval ")).collect();
    let [guard, likes] = rights[..] else { panic!("{rights:?}") };
    let shared = Beside::new();
    for (user, rights) in [("guard", guard), ("likes", likes)] {
        let set: Vec<_> = ["ACL", "SETUSER", user, "on", ">secret"]
            .into_iter()
            .chain(rights.split(' '))
            .collect();
        assert_eq!(shared.cli(&set), "OK");
    }
    let port = shared.redis.port();
    let node = |by: &str| {
        let url = |user: &str| format!("redis://{user}:secret@127.0.0.1:{port}");
        setup(&shared).set("likes.url", &url("likes")).set("guard.url", &url(by)).start()
    };
    let nodes = [node("guard"), node("guard")];
    let mina = nodes[0].somebody("mina");
    for _ in 0..3 {
        assert_eq!(log_in(&nodes[1], "mina", "wrong-horse-battery").status, 401);
    }
    for node in &nodes {
        // What a busy machine answers too late is an error as well; what is not allowed is one each time.
        eventually("attempts are counted without an error", || {
            let errors = || node.metric("madang_guard_store_errors_total", &[]);
            let before = errors();
            for _ in 0..3 {
                log_in(node, "juno", "wrong-horse-battery");
            }
            let away = node.metric("madang_guard_store_away", &[]);
            (errors() + away - before < 0.5).then_some(())
        });
    }
    let ids: Vec<_> = (0..20).map(|n| write(&nodes[0], &mina, &format!("a {n}"))).collect();
    for (at, id) in ids.iter().enumerate() {
        assert!(liked(&mut nodes[at % 2].connect(), "PUT", *id, &mina).is_some());
    }
    for node in nodes {
        node.stop();
    }
    assert_eq!(shared.number("SELECT count(*) FROM article_likes"), 20);
}

#[test]
fn while_the_database_is_away_likes_wait_up_to_a_bound_and_none_is_dropped() {
    let shared = Beside::new();
    let node = || setup(&shared).set("cluster.wait", "2s").start();
    let nodes = [node(), node()];
    let (mina, juno) = (nodes[0].somebody("mina"), nodes[0].somebody("juno"));
    let id = write(&nodes[0], &mina, "liked");
    // Known to the stream from then on.
    for person in [&mina, &juno] {
        assert!(liked(&mut nodes[0].connect(), "PUT", id, person).is_some());
    }
    folded(&shared);
    let mut connection = nodes[1].connect();
    shared.cluster.signal(Signal::STOP);
    // A token is looked at by what this node has heard of the database: it has to wait for that, or say so.
    let taken = liked(&mut connection, "DELETE", id, &juno);
    let part = id % 16;
    let key = shared.cli(&["--scan", "--pattern", &format!("*likes:{part}}}:stream")]);
    assert!(key.ends_with(":stream"), "{key}");
    // As many entries as may wait: mina likes it, again and again.
    let fill = format!(
        "local last = tonumber(redis.call('HGET', KEYS[2], 'last'))
         for i = 1, 65536 do
           redis.call('XADD', KEYS[1], string.format('%.0f-0', last + i), 'l', '{id}:1:1')
         end
         redis.call('HSET', KEYS[2], 'last', string.format('%.0f', last + 65536))
         return 1"
    );
    let about = key.trim_end_matches(":stream").to_owned();
    assert_eq!(shared.cli(&["EVAL", &fill, "2", &key, &about]), "1");
    let length: i64 = shared.cli(&["XLEN", &key]).parse().unwrap();
    assert!(length >= 65_536, "{length}");
    shared.cluster.signal(Signal::CONT);
    folded(&shared);
    // Folded from the first to the last.
    let rows = shared.number("SELECT count(*) FROM article_likes");
    assert_eq!(rows, if taken.is_some() { 1 } else { 2 });
}

#[test]
fn a_stream_that_is_killed_and_empty_goes_on_and_what_it_lost_is_counted() {
    let mut shared = Beside::new();
    let nodes = nodes(&shared);
    let mina = nodes[0].somebody("mina");
    let ids: Vec<_> = (0..40).map(|n| write(&nodes[0], &mina, &format!("a {n}"))).collect();
    let mut connection = nodes[0].connect();
    for id in &ids[..20] {
        assert!(liked(&mut connection, "PUT", *id, &mina).is_some());
    }
    folded(&shared);
    shared.signal(Signal::KILL);
    let refused = ask(&mut connection, "PUT", ids[30], &mina);
    assert!(matches!(refused.status, 503 | 504), "{}", refused.status);
    assert_eq!(read(&nodes[1], ids[0], None).json()["likeCount"], 1, "by the tables");
    shared.redis.restart(&supervisor()).unwrap();
    for id in &ids[20..30] {
        eventually("likes are taken again", || liked(&mut connection, "PUT", *id, &mina));
    }
    // It has forgotten who likes what; the tables have not.
    assert_eq!(liked(&mut connection, "PUT", ids[0], &mina), Some((true, 1)));
    // This node may have noticed later, and leaves the stream alone for a while of its own.
    let other = eventually("the other node takes likes again", || {
        liked(&mut nodes[1].connect(), "DELETE", ids[1], &mina)
    });
    assert_eq!(other, (false, 0));
    folded(&shared);
    let rows = shared.number("SELECT count(*) FROM article_likes");
    assert!((29..=30).contains(&rows), "one of 504 may stand: {rows}");
    assert_eq!(nodes.iter().map(lost).sum::<u64>(), 0);
}

#[test]
fn likes_that_are_lost_before_they_are_in_the_tables_are_counted() {
    let mut shared = Beside::new();
    let node = setup(&shared).start();
    let mina = node.somebody("mina");
    let ids: Vec<_> = (0..20).map(|n| write(&node, &mina, &format!("a {n}"))).collect();
    let mut connection = node.connect();
    // Nothing is folded while somebody holds the positions.
    let mut holder = mysql::Conn::new(shared.cluster.database.url().as_str()).unwrap();
    holder.query_drop("BEGIN").unwrap();
    holder.query_drop("SELECT position FROM like_positions FOR UPDATE").unwrap();
    assert!(liked(&mut connection, "PUT", ids[0], &mina).is_some());
    held_up(&shared);
    for id in &ids[1..] {
        assert!(liked(&mut connection, "PUT", *id, &mina).is_some());
    }
    shared.signal(Signal::KILL);
    eventually("it is gone", || shared.redis.exit());
    holder.query_drop("ROLLBACK").unwrap();
    shared.redis.restart(&supervisor()).unwrap();
    let last = *ids.last().unwrap();
    eventually("likes are taken again", || liked(&mut connection, "DELETE", last, &mina));
    // What was being folded when the server died is in the tables, and may be taken back again.
    eventually("what is lost is known", || {
        folded(&shared);
        let rows = shared.number("SELECT count(*) FROM article_likes") as u64;
        let counted = lost(&node) + rows;
        (20 - 1..=20).contains(&counted).then_some(())
    });
    assert!(lost(&node) > 0);
    node.until_logged("has lost likes that were acknowledged");
}

#[test]
fn a_stream_that_goes_back_in_time_makes_nothing_undone() {
    let mut shared = Beside::new();
    let nodes = nodes(&shared);
    let mina = nodes[0].somebody("mina");
    let ids: Vec<_> = (0..4).map(|n| write(&nodes[0], &mina, &format!("a {n}"))).collect();
    let mut connection = nodes[0].connect();
    for id in &ids {
        assert!(liked(&mut connection, "PUT", *id, &mina).is_some());
    }
    folded(&shared);
    // A copy in which mina likes all of them.
    shared.cli(&["SAVE"]);
    let copy = shared.dir.path().join("dump.rdb");
    let kept = std::fs::read(&copy).unwrap();
    for id in &ids {
        assert_eq!(liked(&mut connection, "DELETE", *id, &mina), Some((false, 0)));
    }
    folded(&shared);
    shared.signal(Signal::KILL);
    eventually("it is gone", || shared.redis.exit());
    std::fs::write(&copy, kept).unwrap();
    shared.redis.restart(&supervisor()).unwrap();
    assert_ne!(shared.cli(&["DBSIZE"]), "0", "the copy is read");
    for (at, id) in ids.iter().enumerate() {
        let node = &nodes[at % 2];
        // To the copy this one would change nothing.
        let (method, answer) = if at < 2 { ("PUT", (true, 1)) } else { ("DELETE", (false, 0)) };
        let taken = || liked(&mut node.connect(), method, *id, &mina);
        assert_eq!(eventually("likes are taken again", taken), answer);
        assert_eq!(read(node, *id, Some(&mina)).json()["liked"], answer.0);
    }
    folded(&shared);
    assert_eq!(shared.number("SELECT count(*) FROM article_likes"), 2, "both are in the tables");
}

/// The node has heard nothing of the newest entries when the server is an old copy of itself.
#[test]
fn a_node_asks_the_tables_before_it_believes_a_server_that_was_away() {
    let mut shared = Beside::new();
    let nodes = nodes(&shared);
    let mina = nodes[0].somebody("mina");
    let id = write(&nodes[0], &mina, "liked");
    assert!(liked(&mut nodes[1].connect(), "PUT", id, &mina).is_some());
    folded(&shared);
    shared.cli(&["SAVE"]);
    let copy = shared.dir.path().join("dump.rdb");
    let kept = std::fs::read(&copy).unwrap();
    nodes[1].signal(Signal::STOP);
    assert_eq!(liked(&mut nodes[0].connect(), "DELETE", id, &mina), Some((false, 0)));
    folded(&shared);
    nodes[0].signal(Signal::STOP);
    shared.signal(Signal::KILL);
    eventually("it is gone", || shared.redis.exit());
    std::fs::write(&copy, kept).unwrap();
    shared.redis.restart(&supervisor()).unwrap();
    nodes[1].signal(Signal::CONT);
    // To the copy this would change nothing.
    let taken = || liked(&mut nodes[1].connect(), "PUT", id, &mina);
    assert_eq!(eventually("likes are taken again", taken), (true, 1));
    folded(&shared);
    assert_eq!(shared.number("SELECT count(*) FROM article_likes"), 1, "it is in the tables");
    nodes[0].signal(Signal::CONT);
}

/// A node that was held up writes nothing of what another one has folded meanwhile.
#[test]
fn entries_that_another_node_has_folded_are_left_alone() {
    let shared = Beside::new();
    let node = setup(&shared).start();
    let mina = node.somebody("mina");
    let id = write(&node, &mina, "liked");
    let mut other = mysql::Conn::new(shared.cluster.database.url().as_str()).unwrap();
    other.query_drop("BEGIN").unwrap();
    other.query_drop("SELECT position FROM like_positions FOR UPDATE").unwrap();
    assert_eq!(liked(&mut node.connect(), "PUT", id, &mina), Some((true, 1)));
    held_up(&shared);
    // The other one has folded this entry, and a later one in which mina does not like it any longer.
    let key = shared.cli(&["--scan", "--pattern", "*:stream"]);
    let entry = shared.cli(&["XRANGE", &key, "-", "+"]);
    let entry: i64 = entry.split('-').next().unwrap().parse().unwrap();
    let part = id % 16;
    let moves = format!("UPDATE like_positions SET position = {} WHERE part = {part}", entry + 1);
    other.query_drop(moves).unwrap();
    other.query_drop("COMMIT").unwrap();
    folded(&shared);
    assert_eq!(shared.number("SELECT count(*) FROM article_likes"), 0);
    let position = format!("SELECT position FROM like_positions WHERE part = {part}");
    assert_eq!(shared.number(&position), entry + 1, "it never goes back");
}

#[test]
fn when_the_folding_node_is_killed_another_one_goes_on() {
    let shared = Beside::new();
    let [mut first, mut second] = nodes(&shared);
    let mina = second.somebody("mina");
    let ids: Vec<_> = (0..30).map(|n| write(&second, &mina, &format!("a {n}"))).collect();
    let mut connection = second.connect();
    assert!(liked(&mut connection, "PUT", ids[0], &mina).is_some());
    folded(&shared);
    // Whichever of both folds: one of them is killed, and then what is left does.
    for id in &ids[1..] {
        assert!(liked(&mut connection, "PUT", *id, &mina).is_some());
    }
    first.signalled_until_it_ends(Signal::KILL);
    folded(&shared);
    assert_eq!(shared.number("SELECT count(*) FROM article_likes"), 30);
    second.signalled_until_it_ends(Signal::KILL);
    let third = setup(&shared).start();
    assert_eq!(read(&third, ids[3], Some(&mina)).json()["liked"], true);
    assert_eq!(liked(&mut third.connect(), "DELETE", ids[3], &mina), Some((false, 0)));
    folded(&shared);
    assert_eq!(shared.number("SELECT count(*) FROM article_likes"), 29);
}

#[test]
fn nodes_that_store_likes_in_other_ways_are_refused_beside_it() {
    let shared = Beside::new();
    let node = setup(&shared).start();
    let dir = tempfile::tempdir().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data", dir.path().to_str().unwrap()];
    let refused = Madang::new(serve)
        .env("MADANG_DATABASE_URL", &shared.cluster.database.url())
        .env("MADANG_ACCOUNTS_TOKEN_KEY", KEY)
        .fails_with(6);
    refused.complains(&["likes.write", "likes_stream = NULL"]);
    node.is_well();
    let no_url = Madang::new(["config", "--set", "likes.write=stream"]).fails_with(2);
    no_url.complains(&["likes.write", "likes.url"]);
}
