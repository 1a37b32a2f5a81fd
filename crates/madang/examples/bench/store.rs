//! The store: what sharing a commit is worth.

use crate::stats::{median, ratios, spread};
use madang_path::{Path, Point};
use madang_service::config::{Origin, Quota, Sources};
use madang_service::idempotency::Once;
use madang_service::store::Store;
use madang_service::tracks::{NewTrack, TrackStore};
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const ROUNDS: usize = 5;
const WRITERS: u32 = 64;
const EACH_ROUND: Duration = Duration::from_millis(1500);

/// 64 concurrent writers: group commit against a commit for each write, for a small write and for a
/// larger one.
pub fn group_commit() -> anyhow::Result<String> {
    let mut out = format!(
        "### Group commit\n\n{WRITERS} concurrent writers at store level, one write after another, `synchronous=FULL`; {ROUNDS} rounds of {:.1} s in turn. Median (range). One commit for each write is `database.commit_group=1`.\n\n| writes/s | one commit each | group commit | writes a commit | **ratio** |\n|---|---|---|---|---|\n",
        EACH_ROUND.as_secs_f64()
    );
    let kinds = [
        (Kind::Rate, "a small write: the rating of a track"),
        (Kind::Insert, "a larger one: a new track, five indexes"),
    ];
    for (kind, name) in kinds {
        let (dir_one, dir_group) = (TempDir::new()?, TempDir::new()?);
        let (one, group) = (open(dir_one.path(), 1)?, open(dir_group.path(), 256)?);
        let (mut alone, mut together, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let base = u32::try_from(round)? * 1_000_000;
            let a = writes_per_second(&one, base, kind)?;
            let before = group.metrics();
            let b = writes_per_second(&group, base, kind)?;
            let after = group.metrics();
            if round > 0 {
                alone.push(a);
                together.push(b);
                sizes.push(
                    (after.committed_jobs - before.committed_jobs) as f64
                        / (after.commits - before.commits) as f64,
                );
            }
        }
        writeln!(
            out,
            "| {name} | {} | {} | {:.0} | **{}** |",
            spread(&alone, 0),
            spread(&together, 0),
            median(&sizes),
            spread(&ratios(&together, &alone), 1)
        )?;
    }
    out.push('\n');
    Ok(out)
}

#[derive(Clone, Copy)]
enum Kind {
    Insert,
    Rate,
}

fn open(dir: &std::path::Path, group: usize) -> anyhow::Result<Store> {
    let mut sources = Sources::new();
    sources.set("database.commit_group", &group.to_string(), Origin::Flag("bench".to_owned()))?;
    Ok(Store::open(dir, &sources.resolve()?.database)?)
}

fn writes_per_second(store: &Store, base: u32, kind: Kind) -> anyhow::Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tracks = TrackStore::new(store.clone(), Quota::default());
    if let Kind::Rate = kind {
        runtime.block_on(async {
            for writer in 0..WRITERS {
                tracks.create(TrackStore::prepare(small(writer)?), Once::default()).await?;
            }
            anyhow::Ok(())
        })?;
    }
    let before = store.metrics().committed_jobs;
    let started = Instant::now();
    runtime.block_on(async {
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            let tracks = tracks.clone();
            writers.spawn(async move {
                let mut number = base + writer;
                while started.elapsed() < EACH_ROUND {
                    match kind {
                        Kind::Insert => {
                            let track = TrackStore::prepare(small(number)?);
                            tracks.create(track, Once::default()).await?;
                        }
                        Kind::Rate => drop(
                            tracks.set_rate(i64::from(writer) + 1, f64::from(number % 5)).await?,
                        ),
                    }
                    number += WRITERS;
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = writers.join_next().await {
            done??;
        }
        anyhow::Ok(())
    })?;
    let elapsed = started.elapsed();
    Ok((store.metrics().committed_jobs - before) as f64 / elapsed.as_secs_f64())
}

fn small(number: u32) -> anyhow::Result<NewTrack> {
    let lat = f64::from(number) * 1e-6;
    let point = |lon: f64| Point { lat, lon, ele: None };
    let path = Path::new(vec![vec![point(127.0), point(127.001)]])?;
    Ok(NewTrack { name: format!("track {number}"), rate: 0.0, path, owner: None })
}
