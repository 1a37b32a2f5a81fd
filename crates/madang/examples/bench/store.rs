//! The store: what sharing a commit is worth.

use crate::stats::{median, ratios, spread};
use madang_path::{Path, Point};
use madang_service::config::{Origin, Sources};
use madang_service::store::Store;
use madang_service::tracks::{NewTrack, TrackStore};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const ROUNDS: usize = 7;
const WRITERS: u32 = 64;
const EACH_ROUND: Duration = Duration::from_millis(1500);

/// 64 concurrent writers of small rows: group commit against a commit for each write.
pub fn group_commit() -> anyhow::Result<String> {
    let (dir_one, dir_group) = (TempDir::new()?, TempDir::new()?);
    let one = open(dir_one.path(), 1)?;
    let group = open(dir_group.path(), 256)?;
    let (mut alone, mut together, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let base = u32::try_from(round)? * 1_000_000;
        let a = writes_per_second(&one, base)?;
        let before = group.figures();
        let b = writes_per_second(&group, base)?;
        let after = group.figures();
        if round > 0 {
            alone.push(a);
            together.push(b);
            sizes.push(
                (after.committed_jobs - before.committed_jobs) as f64
                    / (after.commits - before.commits) as f64,
            );
        }
    }
    Ok(format!(
        "### Group commit\n\n{WRITERS} concurrent writers, each inserting one small track after another at store level, `synchronous=FULL`; {ROUNDS} rounds of {:.1} s in turn. Median (range).\n\n| | writes/s |\n|---|---|\n| a commit for each write (`database.commit_group=1`) | {} |\n| group commit, {:.0} writes a commit | {} |\n| **ratio** | **{}** |\n\n",
        EACH_ROUND.as_secs_f64(),
        spread(&alone, 0),
        median(&sizes),
        spread(&together, 0),
        spread(&ratios(&together, &alone), 1)
    ))
}

fn open(dir: &std::path::Path, group: usize) -> anyhow::Result<Store> {
    let mut sources = Sources::new();
    sources.set("database.commit_group", &group.to_string(), Origin::Flag("bench".to_owned()))?;
    Ok(Store::open(dir, &sources.resolve()?.database)?)
}

fn writes_per_second(store: &Store, base: u32) -> anyhow::Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tracks = TrackStore::new(store.clone());
    let before = store.figures().committed_jobs;
    let started = Instant::now();
    runtime.block_on(async {
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            let tracks = tracks.clone();
            writers.spawn(async move {
                let mut number = base + writer;
                while started.elapsed() < EACH_ROUND {
                    tracks.insert(small(number)?).await?;
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
    Ok((store.figures().committed_jobs - before) as f64 / elapsed.as_secs_f64())
}

fn small(number: u32) -> anyhow::Result<NewTrack> {
    let lat = f64::from(number) * 1e-6;
    let point = |lon: f64| Point { lat, lon, ele: None };
    let path = Path::new(vec![vec![point(127.0), point(127.001)]])?;
    Ok(NewTrack { name: format!("track {number}"), rate: 0.0, path })
}
