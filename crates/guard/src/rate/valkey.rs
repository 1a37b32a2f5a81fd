//! Buckets in Valkey, for all processes that use the same server with the same key.
//!
//! A request is one script and one round trip. Time is the server's. All buckets have one hash tag: in a cluster
//! they are on one server, because a script may not read two. Keys are keyed hashes, contain no name and no address,
//! and expire once their bucket is full.

use super::Bucket;
use crate::limit::StoreError;
use madang_valkey::{Purpose, Script, Server, Url};
use std::sync::Arc;
use std::time::Duration;

const PURPOSE: Purpose = Purpose {
    name: "the server of rate limits",
    answer: Duration::from_millis(100),
    when_full: "each node counts requests alone until it has room",
    is_kept: false,
};

/// Prefix of all keys; one slot of a cluster.
const PREFIX: &str = "{madang:rate}";

/// Buckets in Valkey or Redis.
#[derive(Clone)]
pub struct Shared {
    server: Server,
    script: Arc<Script>,
}

pub(super) struct Taken {
    pub(super) is_over: bool,
    /// Nanoseconds by bucket.
    pub(super) until_full: Vec<u64>,
}

impl Shared {
    /// Buckets on this server, or on a cluster if several addresses are given. Connects at the first request.
    ///
    /// # Errors
    /// The addresses cannot be used.
    pub fn new(urls: &[Url]) -> Result<Self, StoreError> {
        let server = Server::new(urls, PURPOSE)?;
        let script = Arc::new(Script::new(include_str!("valkey.lua").to_owned()));
        Ok(Self { server, script })
    }

    pub(super) async fn take(&self, buckets: &[Bucket]) -> Result<Taken, StoreError> {
        let keys: Vec<String> =
            buckets.iter().map(|bucket| format!("{PREFIX}:{:x}", bucket.id.0)).collect();
        let micros = |nanos: u64| (nanos / 1_000).max(1).to_string();
        let args: Vec<String> = buckets
            .iter()
            .flat_map(|bucket| [bucket.rate.interval(), bucket.rate.full()].map(micros))
            .collect();
        let answer: Vec<String> = self.server.script(&self.script, &keys, &args).await?;
        let numbers: Option<Vec<u64>> = answer.iter().map(|number| number.parse().ok()).collect();
        match numbers.as_deref() {
            Some([over, until_full @ ..]) if until_full.len() == buckets.len() => Ok(Taken {
                is_over: *over == 1,
                until_full: until_full.iter().map(|micros| micros * 1_000).collect(),
            }),
            _ => Err(StoreError(format!("an answer that is none: {answer:?}").into())),
        }
    }
}
