//! A client that goes away at any moment leaves data and cache right.

use crate::harness::{open, runtime, track};
use madang_service::tracks::{Stored, Tracks};
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
    let Stored::Created(id) = tracks.add(track(barrier)).await.unwrap() else {
        panic!("the barrier is not new")
    };
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
    id
}

#[test]
fn a_write_abandoned_at_any_await_is_whole_or_absent_and_the_cache_agrees() {
    let dir = tempfile::tempdir().unwrap();
    let app = open(dir.path());
    let tracks = &app.tracks;
    runtime().block_on(async {
        let mut abandoned_but_stored = 0;
        for polls in 0..40usize {
            let number = u32::try_from(polls).unwrap();
            // The listing is in the cache before the write, and must not survive it.
            let before = tracks.listing(100).await.unwrap();
            let outcome = abandon_after(tracks.add(track(1000 + number)), polls % 20).await;
            settle(tracks, 5000 + number).await;
            let name = format!("track {}", 1000 + number);
            let stored =
                tracks.store().by_length(None, 1000).await.unwrap().iter().any(|t| t.name == name);
            let listed = tracks.listing(100).await.unwrap();
            assert_ne!(before, listed, "the barrier's write must be seen too");
            assert_eq!(
                listed.contains(&format!("\"{name}\"")),
                stored,
                "after {polls} polls cache and store differ"
            );
            abandoned_but_stored += usize::from(outcome.is_none() && stored);
            assert!(polls % 20 != 0 || !stored, "never polled, yet stored");
        }
        assert!(
            abandoned_but_stored > 0,
            "no write went on without its client: nothing was tested"
        );
    });
}
