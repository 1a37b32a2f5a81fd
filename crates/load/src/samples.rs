//! Outputs of single values (`--out`). The event loops put values into a queue, which a thread writes. The queue is
//! bounded by its bytes; when it is full, values are dropped and counted, because an event loop must not wait for a
//! disk.

mod csv;
mod grpc;
mod influx;
mod json;
mod native_histogram;
mod opentelemetry;
mod otlp;
mod post;
mod prometheus;
mod series;
mod spec;
mod variables;
mod writer;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
#[cfg(test)]
use std::time::Duration;
use std::time::{Instant, SystemTime};

use crate::http::Traffic;
use crate::metrics::{Builtin, MetricId, SampleTags};

pub use spec::OutputSpec;
pub(crate) use writer::Writer;

/// Limit of queued values in bytes; about a quarter of a million requests.
const MAX_QUEUED_BYTES: usize = 256 << 20;

/// Memory of a tag besides its text.
const PAIR_BYTES: usize = 64;

/// Values of one moment with the same tags.
#[derive(Debug)]
struct Batch {
    time: SystemTime,
    /// Sorted.
    tags: Vec<(String, String)>,
    metadata: Vec<(String, String)>,
    values: Vec<(MetricId, f64)>,
}

impl Batch {
    #[cfg(test)]
    fn new(
        since_1970: Duration,
        tags: &[(&str, &str)],
        metadata: &[(&str, &str)],
        values: &[(Builtin, f64)],
    ) -> Self {
        let own = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let values = values.iter().map(|(metric, value)| (metric.id(), *value)).collect();
        let time = SystemTime::UNIX_EPOCH + since_1970;
        Self { time, tags: own(tags), metadata: own(metadata), values }
    }

    fn bytes(&self) -> usize {
        let pairs = self.tags.iter().chain(&self.metadata);
        let texts: usize = pairs.map(|(key, value)| key.len() + value.len() + PAIR_BYTES).sum();
        size_of::<Self>() + texts + self.values.len() * size_of::<(MetricId, f64)>()
    }
}

#[derive(Debug)]
enum Message {
    Values(Batch),
    End,
}

/// The queue from all event loops to the writing thread.
#[derive(Debug)]
pub(crate) struct Samples {
    sender: mpsc::Sender<Message>,
    queued: Arc<AtomicUsize>,
    dropped: AtomicU64,
    /// The same moment by both clocks.
    origin: (Instant, SystemTime),
}

impl Samples {
    fn new(sender: mpsc::Sender<Message>, queued: Arc<AtomicUsize>) -> Self {
        let origin = (Instant::now(), SystemTime::now());
        Self { sender, queued, dropped: AtomicU64::new(0), origin }
    }

    /// Queues values of one moment, or drops them when the queue is full.
    pub(crate) fn send(&self, time: Instant, values: &[(MetricId, f64)], tags: &SampleTags<'_>) {
        let (tags, metadata) = (tags.pairs(), tags.metadata_pairs());
        let time = match time.checked_duration_since(self.origin.0) {
            Some(later) => self.origin.1 + later,
            None => self.origin.1 - self.origin.0.duration_since(time),
        };
        let batch = Batch { time, tags, metadata, values: values.to_vec() };
        let bytes = batch.bytes();
        let fits = self.queued.fetch_add(bytes, Ordering::Relaxed) + bytes <= MAX_QUEUED_BYTES;
        // Without a receiver the writing thread has failed and logged why.
        if !fits || self.sender.send(Message::Values(batch)).is_err() {
            self.queued.fetch_sub(bytes, Ordering::Relaxed);
            self.dropped.fetch_add(values.len() as u64, Ordering::Relaxed);
        }
    }

    fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// A recorder's access to the outputs.
#[derive(Debug)]
pub(crate) struct Emitter {
    pub(crate) samples: Arc<Samples>,
    /// Bytes of the current iterations by virtual user: in k6 they are values of iterations, not of requests.
    traffic: HashMap<u32, Traffic>,
}

impl Emitter {
    pub(crate) fn new(samples: Arc<Samples>) -> Self {
        Self { samples, traffic: HashMap::new() }
    }

    pub(crate) fn add_traffic(&mut self, vu: u32, traffic: Traffic) {
        self.traffic.entry(vu).or_default().add(traffic);
    }

    pub(crate) fn end_iteration(&mut self, tags: &SampleTags<'_>) {
        let Traffic { sent, received } = self.traffic.remove(&tags.vu.0).unwrap_or_default();
        let values =
            [(Builtin::DataSent.id(), sent as f64), (Builtin::DataReceived.id(), received as f64)];
        self.samples.send(Instant::now(), &values, tags);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_and_counts() {
        let (sender, receiver) = mpsc::channel();
        let samples = Samples::new(sender, Arc::default());
        let values = [(Builtin::HttpReqs.id(), 1.0), (Builtin::HttpReqFailed.id(), 0.0)];
        samples.send(Instant::now(), &values, &SampleTags::default());
        let Ok(Message::Values(batch)) = receiver.try_recv() else { panic!("queued") };
        assert_eq!((batch.values.len(), samples.dropped()), (2, 0));
        samples.queued.fetch_add(MAX_QUEUED_BYTES, Ordering::Relaxed);
        samples.send(Instant::now(), &values, &SampleTags::default());
        assert!(receiver.try_recv().is_err());
        assert_eq!(samples.dropped(), 2);
        assert_eq!(samples.queued.load(Ordering::Relaxed), MAX_QUEUED_BYTES + batch.bytes());
    }
}
