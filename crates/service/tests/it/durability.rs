//! What was acknowledged is there, whatever happens next.

use crate::harness::{add, open, runtime, track};
use madang_service::store::FILE;
use madang_service::tracks::Stored;
use madang_testing::Finish as _;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

const CHILD: &str = "MADANG_SERVICE_TEST_CHILD";

/// Not a test by itself: the process that the tests below trace and kill. Writes `count` tracks in
/// rounds of `at_once`, and prints `ack ID` with a single system call once a write was acknowledged.
#[test]
fn child_that_writes_and_acknowledges() {
    let Ok(instruction) = std::env::var(CHILD) else { return };
    let mut words = instruction.splitn(3, ' ');
    let mut number = || words.next().unwrap().parse::<u32>().unwrap();
    let (count, at_once) = (number(), number() as usize);
    let app = open(Path::new(words.next().unwrap()));
    runtime().block_on(async {
        let mut writes = tokio::task::JoinSet::new();
        for number in 0..count {
            let tracks = app.tracks.clone();
            writes.spawn(async move {
                if let Stored::Created(id) = add(&tracks, track(number)).await.unwrap() {
                    std::io::stdout().write_all(format!("ack {id}\n").as_bytes()).unwrap();
                    std::io::stdout().flush().unwrap();
                }
            });
            if writes.len() == at_once || number + 1 == count {
                while let Some(done) = writes.join_next().await {
                    done.unwrap();
                }
            }
        }
    });
}

fn child(prefix: &[&str], count: u32, at_once: u32, dir: &Path) -> Command {
    let own = std::env::current_exe().unwrap();
    let own = own.to_str().unwrap();
    let args: Vec<&str> = prefix
        .iter()
        .copied()
        .chain([
            own,
            "--exact",
            "durability::child_that_writes_and_acknowledges",
            "--nocapture",
            "--test-threads=1",
        ])
        .collect();
    let mut command = Command::new(args[0]);
    command
        .args(&args[1..])
        .env(CHILD, format!("{count} {at_once} {}", dir.display()))
        .stdout(Stdio::piped());
    command
}

fn acknowledged(line: &str) -> Option<i64> {
    // The first line may follow libtest's own words.
    line.rsplit_once("ack ").and_then(|(_, id)| id.trim().parse().ok())
}

fn stored_ids(dir: &Path) -> BTreeSet<i64> {
    let app = open(dir);
    runtime().block_on(async {
        let all = app.tracks.store().by_length(None, 100_000).await.unwrap();
        for track in &all {
            assert!(
                app.tracks.store().find(track.id).await.unwrap().is_some(),
                "a track without its path"
            );
        }
        all.into_iter().map(|t| t.id).collect()
    })
}

#[test]
fn a_process_killed_in_mid_write_has_lost_nothing_it_acknowledged() {
    for round in 0..8u64 {
        let dir = tempfile::tempdir().unwrap();
        let mut process = child(&[], 100_000, 16, dir.path()).spawn().unwrap();
        let watch = madang_testing::Watch::over(&process);
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut acked = BTreeSet::new();
        while (acked.len() as u64) < 20 + round * 37 {
            acked.extend(acknowledged(&lines.next().unwrap().unwrap()));
        }
        drop(watch);
        process.kill().unwrap();
        process.wait().unwrap();
        // What it printed before it died counts too.
        acked.extend(lines.map_while(Result::ok).filter_map(|line| acknowledged(&line)));
        let stored = stored_ids(dir.path());
        let lost: Vec<_> = acked.difference(&stored).collect();
        assert!(lost.is_empty(), "round {round}: {} acknowledged, lost {lost:?}", acked.len());
    }
}

#[test]
fn every_acknowledged_write_follows_the_sync_of_its_commit() {
    // One at a time: each acknowledgement needs a sync of its own, after all its pages.
    let alone = trace(60, 1);
    assert_eq!(
        (alone.acks, alone.early),
        (60, vec![]),
        "acknowledged before the sync of its commit"
    );
    // In rounds: when the last of a round is acknowledged, nothing of the round is unsynced.
    let grouped = trace(160, 16);
    assert_eq!(
        (grouped.acks, grouped.early),
        (160, vec![]),
        "acknowledged before the sync of its commit"
    );
    assert!(grouped.syncs < 160, "{} syncs for 160 writes: they did not share any", grouped.syncs);
}

/// Runs the child under strace and follows its system calls.
fn trace(count: u32, at_once: u32) -> Trace {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    let prefix = [
        "strace",
        "-f",
        "-y",
        "-o",
        trace.to_str().unwrap(),
        "-e",
        "trace=pwrite64,write,fdatasync,fsync",
    ];
    let output = child(&prefix, count, at_once, &data).finish();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Trace::read(&fs::read_to_string(&trace).unwrap(), at_once)
}

/// What a trace of system calls shows of the write-ahead log.
#[derive(Default)]
struct Trace {
    acks: u32,
    syncs: u32,
    /// Acknowledgements that came too early, by number.
    early: Vec<u32>,
}

impl Trace {
    /// Goes through the calls in the order of the trace. Of a call that strace split in two, a
    /// write to the log counts from its beginning and a sync from its return: both against us.
    fn read(text: &str, round: u32) -> Trace {
        let mut trace = Trace::default();
        let mut syncing: HashMap<&str, bool> = HashMap::new();
        // Pages written to the log that no sync which began later has covered.
        let mut unsynced = false;
        for line in text.lines() {
            let (thread, call) = line.split_once(' ').unwrap_or((line, ""));
            let call = call.trim_start();
            let is_log = call.contains(".db-wal>");
            let returned = if call.starts_with("<... fdatasync resumed>")
                || call.starts_with("<... fsync resumed>")
            {
                syncing.remove(thread).unwrap_or(false)
            } else if call.starts_with("fdatasync(") || call.starts_with("fsync(") {
                if call.ends_with("<unfinished ...>") {
                    syncing.insert(thread, is_log);
                    false
                } else {
                    is_log
                }
            } else {
                false
            };
            if returned {
                unsynced = false;
                trace.syncs += 1;
            }
            unsynced |= call.starts_with("pwrite64(") && is_log;
            if call.starts_with("write(1") && call.contains("ack ") {
                trace.acks += 1;
                let all_written = trace.acks % round == 0;
                if trace.syncs == 0 || all_written && (unsynced || trace.syncs < trace.acks / round)
                {
                    trace.early.push(trace.acks);
                }
            }
        }
        trace
    }
}

#[test]
fn a_log_cut_anywhere_recovers_a_prefix_with_every_synced_commit() {
    let dir = tempfile::tempdir().unwrap();
    let app = open(dir.path());
    let log = dir.path().join(format!("{FILE}-wal"));
    // Highest id acknowledged when the log had this length. Every write is a commit of its own here.
    let mut synced: Vec<(u64, i64)> = Vec::new();
    runtime().block_on(async {
        for number in 0..120 {
            let Stored::Created(id) = add(&app.tracks, track(number)).await.unwrap() else {
                panic!("not new")
            };
            synced.push((fs::metadata(&log).unwrap().len(), id));
        }
    });
    let whole = fs::read(&log).unwrap();
    let base = fs::read(dir.path().join(FILE)).unwrap();
    assert_eq!(
        synced.last().unwrap().0,
        whole.len() as u64,
        "the log was checkpointed: the test needs all of it"
    );
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..150 {
        let cut = random.usize(..=whole.len());
        let copy = tempfile::tempdir().unwrap();
        fs::write(copy.path().join(FILE), &base).unwrap();
        let mut log = whole[..cut].to_vec();
        if random.bool() {
            // A torn sector: what follows the cut is noise instead of nothing.
            log.extend((0..random.usize(..9000)).map(|_| random.u8(..)));
        }
        fs::write(copy.path().join(format!("{FILE}-wal")), log).unwrap();
        let found = stored_ids(copy.path());
        let highest = found.last().copied().unwrap_or(0);
        assert!(found.iter().copied().eq(1..=highest), "cut at {cut}: not a prefix: {found:?}");
        let promised = synced
            .iter()
            .filter(|(length, _)| *length <= cut as u64)
            .map(|(_, id)| *id)
            .max()
            .unwrap_or(0);
        assert!(highest >= promised, "cut at {cut}: {promised} was synced, {highest} recovered");
    }
}
