//! A client that goes away at any moment leaves data and cache right.

use crate::harness::{add, open, runtime, track};
use madang_service::idempotency::Once;
use madang_service::tracks::{Stored, TrackStore, Tracks};
use std::future::{Future, poll_fn};
use std::task::Poll;

/// Polls a future `polls` times, letting everything else run in between, and drops it.
async fn abandon_after<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = Box::pin(future);
    for _ in 0..polls {
        let once = poll_fn(|cx| {
            Poll::Ready(match future.as_mut().poll(cx) {
                Poll::Ready(value) => Some(value),
                Poll::Pending => None,
            })
        });
        if let Some(value) = once.await {
            return Some(value);
        }
        tokio::task::yield_now().await;
    }
    None
}

/// Everything that was handed to the writer before is settled, and its task has ended.
async fn settle(tracks: &Tracks, barrier: u32) -> i64 {
    let Stored::Created(id) = add(tracks, track(barrier)).await.unwrap() else {
        panic!("the barrier is not new")
    };
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
    id
}

/// Whether the first page by length and the store agree on a track; answers whether it is there.
async fn agree_on(tracks: &Tracks, name: &str, when: &str) -> bool {
    let all = tracks.store().by_length(None, 1000).await.unwrap();
    let stored = all.iter().any(|track| track.name == name);
    let listed = tracks.listing(100).await.unwrap().contains(&format!("\"{name}\""));
    assert_eq!(listed, stored, "{name}, {when}: cache and store differ");
    stored
}

#[test]
fn a_write_abandoned_at_any_await_is_whole_or_absent_and_the_cache_agrees() {
    let dir = tempfile::tempdir().unwrap();
    let app = open(dir.path());
    let tracks = &app.tracks;
    runtime().block_on(async {
        for polls in 0..20usize {
            let number = u32::try_from(polls).unwrap();
            let when = format!("abandoned after {polls} polls");
            // The listing is in the cache before the write, and must not survive it.
            tracks.listing(100).await.unwrap();
            let whole = add(tracks, track(1000 + number));
            abandon_after(whole, polls).await;
            let prepared = TrackStore::prepare(track(2000 + number));
            let create = tracks.store().create(prepared, Once::default());
            let outcome = abandon_after(create, polls).await;
            settle(tracks, 5000 + number).await;
            let early = agree_on(tracks, &format!("track {}", 1000 + number), &when).await;
            assert!(polls > 0 || !early, "never polled, yet stored");
            // From its first poll on, a prepared write belongs to a task that its client cannot stop.
            let stored = agree_on(tracks, &format!("track {}", 2000 + number), &when).await;
            assert_eq!(stored, polls > 0, "{when}, {outcome:?}");
        }
    });
}
