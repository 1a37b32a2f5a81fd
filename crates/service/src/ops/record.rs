//! Records of requests: lines of the access log, warnings of slow requests, spans for a collector
//! (docs/decisions/0064-request-records.md).
//!
//! All are off by default, at the cost of one branch per request. Otherwise the edge passes a record to one thread
//! for the lines ([`lines`]) and one for the spans ([`spans`]), each behind a bounded queue; records that find it
//! full are dropped and counted. A record contains the path without its query, no header except the request id and
//! the trace, and nothing of a body.

mod lines;
mod otlp;
mod spans;
mod spent;
mod trace;

pub(crate) use spent::{Part, Spent, Timer, micros};
pub(crate) use trace::Trace;

use super::metrics::{made, method_label};
use crate::config::Settings;
use crate::http::RequestId;
use crossbeam_channel::{Receiver, Sender, bounded};
use http::Request;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Maximum number of records waiting for each thread: some 4 MB, and a tenth of a second at the maximum rate of two
/// cores.
const QUEUE: usize = 8192;

/// Maximum length of a recorded path in bytes, three times the longest of this API.
const LONGEST_PATH: usize = 256;

/// Time for waiting records when the server stops: an output or a collector that is stuck must not delay it.
const LAST_WORDS: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Record {
    /// Time at which the head was complete.
    at: SystemTime,
    id: Box<str>,
    method: &'static str,
    /// Template of the route.
    route: &'static str,
    path: Box<str>,
    client: IpAddr,
    trace: Option<Trace>,
    /// Its own span; `None` = not sampled.
    span: Option<u64>,
    /// `None` = the client left before the response.
    status: Option<u16>,
    /// Length of the response's body, if known.
    bytes: Option<u64>,
    took: Duration,
    cached: Option<bool>,
    /// Microseconds by [`Part`].
    spent: [u64; Part::NAMES.len()],
}

/// A request in progress.
#[derive(Debug)]
pub(crate) struct OpenRecord {
    record: Record,
    pub(crate) spent: Arc<Spent>,
}

impl OpenRecord {
    /// The caller's trace, or a new one.
    pub(crate) fn trace(&self) -> Option<Trace> {
        self.record.trace
    }
}

/// Takes records from the edge. Dropping the last reference ends both threads.
#[derive(Debug)]
pub(crate) struct Recorder {
    slow: Option<Duration>,
    access: bool,
    lines: Option<Queue>,
    spans: Option<Queue>,
    /// Share of the requests without a trace that start one.
    sample: f64,
    /// Closed at the end, which interrupts the pause before spans are sent again.
    _alive: Option<Sender<()>>,
}

/// The queue of one of the threads.
#[derive(Debug)]
struct Queue {
    send: Sender<Arc<Record>>,
    dropped: Counter,
}

impl Queue {
    fn push(&self, record: Arc<Record>) {
        if self.send.try_send(record).is_err() {
            self.dropped.inc();
        }
    }
}

/// Closed when the threads end.
#[derive(Debug, Default)]
pub(crate) struct Threads(Vec<Receiver<()>>);

impl Threads {
    /// Starts a thread, which ends when the returned sender is dropped.
    fn start(
        &mut self,
        name: &str,
        work: impl FnOnce(Receiver<Arc<Record>>) + Send + 'static,
    ) -> io::Result<Sender<Arc<Record>>> {
        let (send, records) = bounded(QUEUE);
        let (running, ended) = bounded(0);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _running: Sender<()> = running;
            work(records);
        })?;
        self.0.push(ended);
        Ok(send)
    }

    /// Waits until the records are written and sent, for [`LAST_WORDS`] at most. Every [`Recorder`] must have been
    /// dropped.
    pub(crate) fn finish(self) {
        let until = std::time::Instant::now() + LAST_WORDS;
        for ended in self.0 {
            // Nothing is sent: the end of the thread closes the channel.
            if ended.recv_deadline(until).is_err_and(|error| error.is_timeout()) {
                tracing::warn!(
                    "records of requests are lost: their reader or collector does not take them"
                );
            }
        }
    }
}

impl Recorder {
    /// Starts the threads that the settings need; `None` when they need none.
    pub(crate) fn start(
        settings: &Settings,
        address: SocketAddr,
        registry: &mut Registry,
    ) -> io::Result<(Option<Arc<Recorder>>, Threads)> {
        let help =
            "Lines of the access log, and of slow requests, that could not be written in time";
        let lost_lines: Counter = made(registry, "log_lines_dropped", help);
        let sent = made(registry, "trace_spans_sent", "Spans that the collector took");
        let help = "Spans that the collector did not take in time";
        let lost_spans: Counter = made(registry, "trace_spans_dropped", help);
        let (log, trace) = (&settings.log, &settings.trace);
        let mut threads = Threads::default();
        let mut lines = None;
        if log.access.is_some() || log.slow.is_some() {
            let writer = lines::Writer::new(log, lost_lines.clone());
            let send = threads.start("access-log", move |records| writer.run(&records))?;
            lines = Some(Queue { send, dropped: lost_lines });
        }
        let (mut spans, mut alive) = (None, None);
        if let Some(endpoint) = trace.endpoint.clone() {
            let exporter = spans::Exporter::new(endpoint, address, sent, lost_spans.clone());
            let (running, stop) = bounded(0);
            let send = threads.start("spans", move |records| exporter.run(&records, &stop))?;
            alive = Some(running);
            spans = Some(Queue { send, dropped: lost_spans });
        }
        let is_wanted = lines.is_some() || spans.is_some();
        let recorder = is_wanted.then(|| {
            let (slow, access, sample) = (log.slow, log.access.is_some(), trace.sample);
            Arc::new(Recorder { slow, access, lines, spans, sample, _alive: alive })
        });
        Ok((recorder, threads))
    }

    /// Begins the record of a request whose head has arrived.
    pub(crate) fn begin<B>(
        &self,
        request: &Request<B>,
        id: &RequestId,
        client: IpAddr,
        given: Option<Trace>,
    ) -> Box<OpenRecord> {
        let sampled = self.spans.as_ref().and_then(|_| match given {
            Some(trace) => trace.is_sampled.then_some(trace),
            None => (fastrand::f64() < self.sample).then(Trace::begin),
        });
        let record = Record {
            at: SystemTime::now(),
            id: id.as_str().into(),
            method: method_label(request.method()),
            route: "",
            path: printable(request.uri().path()),
            client,
            trace: sampled.or(given),
            span: sampled.map(|_| fastrand::u64(1..)),
            status: None,
            bytes: None,
            took: Duration::ZERO,
            cached: None,
            spent: Default::default(),
        };
        Box::new(OpenRecord { record, spent: Arc::default() })
    }

    /// Completes a record and passes it to the threads.
    pub(crate) fn end(
        &self,
        seen: Box<OpenRecord>,
        route: &'static str,
        (status, bytes): (Option<u16>, Option<u64>),
        took: Duration,
    ) {
        let OpenRecord { mut record, spent } = *seen;
        (record.route, record.status, record.bytes, record.took) = (route, status, bytes, took);
        (record.cached, record.spent) = (spent.was_cached(), spent.micros());
        let has_line = self.access || self.slow.is_some_and(|slow| took >= slow);
        let (has_span, record) = (record.span.is_some(), Arc::new(record));
        if let Some(lines) = self.lines.as_ref().filter(|_| has_line) {
            lines.push(Arc::clone(&record));
        }
        if let Some(spans) = self.spans.as_ref().filter(|_| has_span) {
            spans.push(record);
        }
    }
}

/// A shortened path; bytes that a terminal or a log reader could take for anything but text are percent-encoded.
fn printable(path: &str) -> Box<str> {
    let kept = &path.as_bytes()[..path.len().min(LONGEST_PATH)];
    if kept.iter().all(u8::is_ascii_graphic) {
        return String::from_utf8_lossy(kept).into();
    }
    let mut text = String::with_capacity(2 * kept.len());
    for byte in kept {
        if byte.is_ascii_graphic() {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text.into()
}

#[cfg(test)]
mod tests;
