//! The thread that writes the access log and warnings of slow requests. It waits for a record, then shortly for
//! others, and writes all lines at once (docs/decisions/0064-request-records.md).

use super::{Part, Record, micros};
use crate::config::{AccessLog, LogSettings};
use crate::http::rfc3339::format_utc;
use crossbeam_channel::Receiver;
use prometheus_client::metrics::counter::Counter;
use serde::{Serialize, Serializer};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// Time between the first record and the write.
const GATHER: Duration = Duration::from_millis(10);

/// Maximum number of records in one write, some 300 KB.
const AT_ONCE: usize = 1024;

/// Status of a request whose client left before the response, as in nginx.
const CLIENT_LEFT: u16 = 499;

#[derive(Debug)]
pub(super) struct Writer {
    access: Option<AccessLog>,
    slow: Option<Duration>,
    dropped: Counter,
    /// The last write failed, perhaps in the middle of a line.
    is_broken: bool,
}

/// A line of the access log. Its first members are those of all lines of the JSON log.
#[derive(Serialize)]
struct Line<'a> {
    timestamp: String,
    level: &'static str,
    message: &'static str,
    request_id: &'a str,
    method: &'static str,
    route: &'static str,
    path: &'a str,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    duration_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached: Option<bool>,
    #[serde(flatten, serialize_with = "parts")]
    spent: [u64; Part::NAMES.len()],
    client: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
}

/// Microseconds of each part that took any.
fn parts<S: Serializer>(spent: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
    let parts = Part::NAMES.iter().zip(spent);
    serializer.collect_map(parts.filter(|(_, micros)| **micros > 0))
}

impl Writer {
    pub(super) fn new(settings: &LogSettings, dropped: Counter) -> Writer {
        let LogSettings { access, slow, .. } = *settings;
        Writer { access, slow, dropped, is_broken: false }
    }

    /// Writes records until all senders are dropped.
    pub(super) fn run(mut self, records: &Receiver<Arc<Record>>) {
        let mut text = Vec::new();
        while let Ok(first) = records.recv() {
            std::thread::sleep(GATHER);
            let mut count = 0;
            text.clear();
            for record in std::iter::once(first).chain(records.try_iter()).take(AT_ONCE) {
                if self.slow.is_some_and(|slow| record.took >= slow) {
                    warn(&record);
                }
                if self.access.is_some() {
                    count += 1;
                    write_line(&mut text, &record);
                }
            }
            self.write(&text, count);
        }
    }

    fn write(&mut self, text: &[u8], count: u64) {
        let Some(output) = self.access.filter(|_| count > 0) else { return };
        let written = match output {
            AccessLog::Stdout => self.write_to(io::stdout().lock(), text),
            AccessLog::Stderr => self.write_to(io::stderr().lock(), text),
        };
        self.is_broken = written.is_err();
        if self.is_broken {
            self.dropped.inc_by(count);
        }
    }

    fn write_to(&self, mut output: impl io::Write, text: &[u8]) -> io::Result<()> {
        if self.is_broken {
            output.write_all(b"\n")?;
        }
        output.write_all(text)?;
        output.flush()
    }
}

pub(super) fn write_line(text: &mut Vec<u8>, record: &Record) {
    let since = record.at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let line = Line {
        timestamp: format_utc(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)),
        level: "INFO",
        message: "access",
        request_id: &record.id,
        method: record.method,
        route: record.route,
        path: &record.path,
        status: record.status.unwrap_or(CLIENT_LEFT),
        bytes: record.bytes,
        duration_us: micros(record.took),
        cached: record.cached,
        spent: record.spent,
        client: record.client,
        trace_id: record.trace.map(|trace| trace.id_text()),
    };
    // Numbers and strings into memory: cannot fail.
    let _ = serde_json::to_writer(&mut *text, &line);
    text.push(b'\n');
}

fn warn(record: &Record) {
    let [body_us, queue_us, load_us, store_us, hash_us, cluster_us] =
        record.spent.map(|micros| Some(micros).filter(|micros| *micros > 0));
    tracing::warn!(
        request_id = &*record.id,
        method = record.method,
        route = record.route,
        path = &*record.path,
        status = record.status.unwrap_or(CLIENT_LEFT),
        duration_us = micros(record.took),
        cached = record.cached,
        body_us,
        queue_us,
        load_us,
        store_us,
        hash_us,
        cluster_us,
        trace_id = record.trace.map(|trace| trace.id_text()),
        "slow request"
    );
}
