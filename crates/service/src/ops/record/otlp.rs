//! Spans in OTLP/JSON (OpenTelemetry Protocol 1.x, `trace/v1/trace.proto`), with the stable semantic conventions for
//! HTTP servers (1.23 and later). 64-bit numbers are text, and ids hex digits.

use super::{Part, Record, micros};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

const SERVER: u8 = 2;

/// `STATUS_CODE_ERROR`, for a failed server, not for a wrong request.
const ERROR: u8 = 2;

/// The sender of the spans, the same in every body.
#[derive(Debug)]
pub(super) struct Resource(Value);

impl Resource {
    pub(super) fn new(address: SocketAddr) -> Resource {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim();
        let instance = format!("{host}:{}", address.port());
        Resource(json!([
            text("service.name", "madang"),
            text("service.version", env!("CARGO_PKG_VERSION")),
            text("service.instance.id", &instance),
            text("host.name", host),
        ]))
    }

    /// The body of a request with these spans.
    pub(super) fn body(&self, records: &[Arc<Record>]) -> Vec<u8> {
        let spans: Vec<Value> = records.iter().filter_map(|record| span(record)).collect();
        let scope = json!({ "name": "madang", "version": env!("CARGO_PKG_VERSION") });
        let body = json!({ "resourceSpans": [{
            "resource": { "attributes": self.0 },
            "scopeSpans": [{ "scope": scope, "spans": spans }],
        }] });
        // Values into memory: cannot fail.
        serde_json::to_vec(&body).unwrap_or_default()
    }
}

/// `None` for a record without a span.
fn span(record: &Record) -> Option<Value> {
    let trace = record.trace?;
    let start = record.at.duration_since(UNIX_EPOCH).unwrap_or_default();
    // By the monotonic clock: a span does not end before it starts.
    let end = start + record.took;
    let mut span = json!({
        "traceId": trace.id_text(),
        "spanId": format!("{:016x}", record.span?),
        "name": route(record).map_or_else(
            || record.method.to_owned(),
            |route| format!("{} {route}", record.method),
        ),
        "kind": SERVER,
        "startTimeUnixNano": start.as_nanos().to_string(),
        "endTimeUnixNano": end.as_nanos().to_string(),
        "attributes": attributes(record),
    });
    if trace.parent != 0 {
        span["parentSpanId"] = format!("{:016x}", trace.parent).into();
    }
    if record.status.is_some_and(|status| status >= 500) {
        span["status"] = json!({ "code": ERROR });
    }
    Some(span)
}

/// Template of the route; `None` when no route matched.
fn route(record: &Record) -> Option<&'static str> {
    Some(record.route).filter(|route| route.starts_with('/'))
}

fn attributes(record: &Record) -> Vec<Value> {
    let mut all = vec![
        text("http.request.method", record.method),
        text("url.path", &record.path),
        text("url.scheme", "http"),
        text("client.address", &record.client.to_string()),
        text("madang.request_id", &record.id),
    ];
    all.extend(route(record).map(|route| text("http.route", route)));
    if let Some(status) = record.status {
        all.push(number("http.response.status_code", status.into()));
        if status >= 500 {
            all.push(text("error.type", &status.to_string()));
        }
    }
    if let Some(bytes) = record.bytes {
        all.push(number("http.response.body.size", bytes));
    }
    if let Some(cached) = record.cached {
        all.push(json!({ "key": "madang.cached", "value": { "boolValue": cached } }));
    }
    let parts = Part::NAMES.iter().zip(record.spent).filter(|(_, micros)| *micros > 0);
    all.extend(parts.map(|(name, micros)| number(&format!("madang.{name}"), micros)));
    all.push(number("madang.duration_us", micros(record.took)));
    all
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn number(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}
