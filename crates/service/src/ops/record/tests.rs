//! Records of artificial requests: their lines, their spans, and full queues.

use super::*;
use http::HeaderMap;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn recorder(queue: usize) -> (Recorder, Receiver<Arc<Record>>) {
    let (send, records) = bounded(queue);
    let lines = Some(Queue { send, dropped: Counter::default() });
    let recorder =
        Recorder { slow: None, access: true, lines, spans: None, sample: 1.0, _alive: None };
    (recorder, records)
}

fn with_spans(sample: f64) -> (Recorder, Receiver<Arc<Record>>) {
    let (mut recorder, records) = recorder(9);
    recorder.spans = recorder.lines.take();
    (Recorder { access: false, sample, ..recorder }, records)
}

/// Records a request for this target, answered 200 after 1.5 ms.
fn pass(recorder: &Recorder, target: &str, trace: Option<Trace>) {
    let request = Request::builder().uri(target).header("authorization", "Bearer s3cret");
    let request = request.body(()).unwrap();
    let client = Ipv4Addr::new(192, 0, 2, 1).into();
    let seen = recorder.begin(&request, &RequestId::of(&HeaderMap::new()), client, trace);
    seen.spent.cached(true);
    let took = Duration::from_micros(1500);
    recorder.end(seen, "/v1/tracks/{id}", (Some(200), Some(7)), took);
}

fn given(parent: &str) -> Option<Trace> {
    let mut headers = HeaderMap::new();
    headers.insert("traceparent", parent.parse().unwrap());
    Trace::of(&headers)
}

fn line(record: &Record) -> String {
    let mut text = Vec::new();
    lines::write_line(&mut text, record);
    String::from_utf8(text).unwrap()
}

#[test]
fn a_line_is_one_object_with_what_is_known_and_no_query() {
    let (recorder, records) = recorder(1);
    pass(&recorder, "/v1/tracks/7?q=s3cret", given(PARENT));
    let text = line(&records.recv().unwrap());
    assert!(text.ends_with("}\n") && !text.contains("s3cret"), "{text}");
    let line: Value = serde_json::from_str(&text).unwrap();
    let expected = json!({
        "level": "INFO",
        "message": "access",
        "method": "GET",
        "route": "/v1/tracks/{id}",
        "path": "/v1/tracks/7",
        "status": 200,
        "bytes": 7,
        "duration_us": 1500,
        "cached": true,
        "client": "192.0.2.1",
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    });
    for (member, value) in expected.as_object().unwrap() {
        assert_eq!(line[member], *value, "{member}: {text}");
    }
    assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{text}");
    assert_eq!(line.get("store_us"), None, "{text}");
}

#[test]
fn nothing_in_a_path_reaches_the_log_as_anything_but_text() {
    assert_eq!(&*printable("/v1/a\"}\\b"), "/v1/a\"}\\b");
    // A line feed, an escape sequence, a right-to-left override, a C1 control.
    assert_eq!(&*printable("/a\n{\u{1b}[2J\u{202e}\u{9b}"), "/a%0A{%1B[2J%E2%80%AE%C2%9B");
    assert_eq!(printable(&"/x".repeat(4000)).len(), LONGEST_PATH);
    let (recorder, records) = recorder(1);
    pass(&recorder, "/a%0a\"}{\"status\":200", None);
    let text = line(&records.recv().unwrap());
    assert_eq!(text.lines().count(), 1);
    let line: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["path"], "/a%0a\"}{\"status\":200");
}

#[test]
fn what_finds_the_queue_full_is_dropped_and_counted() {
    let (recorder, records) = recorder(2);
    for _ in 0..5 {
        pass(&recorder, "/", None);
    }
    assert_eq!(records.len(), 2);
    assert_eq!(recorder.lines.as_ref().unwrap().dropped.get(), 3);
    drop(records);
    pass(&recorder, "/", None);
    assert_eq!(recorder.lines.unwrap().dropped.get(), 4);
}

#[test]
fn only_what_took_as_long_as_the_setting_says_is_slow() {
    let (recorder, records) = recorder(9);
    let slow = |micros| Some(Duration::from_micros(micros));
    let recorder = Recorder { access: false, slow: slow(1501), ..recorder };
    pass(&recorder, "/", None);
    assert_eq!(records.len(), 0);
    let recorder = Recorder { slow: slow(1500), ..recorder };
    pass(&recorder, "/", None);
    assert_eq!(records.len(), 1);
}

#[test]
fn the_caller_decides_whether_its_trace_is_recorded_and_the_share_decides_for_others() {
    let (recorder, records) = with_spans(0.0);
    pass(&recorder, "/", given(PARENT));
    assert_eq!(records.len(), 1);
    pass(&recorder, "/", None);
    assert_eq!(records.len(), 1);
    let (recorder, records) = with_spans(1.0);
    pass(&recorder, "/", given(&PARENT.replace("-01", "-00")));
    assert_eq!(records.len(), 0);
    pass(&recorder, "/", None);
    let record = records.recv().unwrap();
    assert_eq!(record.trace.unwrap().parent, 0);
    assert!(record.span.is_some());
}

#[test]
fn a_span_has_the_shape_of_otlp_and_the_names_of_the_conventions() {
    let (recorder, records) = with_spans(1.0);
    pass(&recorder, "/v1/tracks/7?q=s3cret", given(PARENT));
    let address = (Ipv4Addr::LOCALHOST, 8080).into();
    let body = otlp::Resource::new(address).body(&[records.recv().unwrap()]);
    assert!(!String::from_utf8_lossy(&body).contains("s3cret"));
    let body: Value = serde_json::from_slice(&body).unwrap();
    let all = &body["resourceSpans"][0];
    let first = &all["resource"]["attributes"][0];
    assert_eq!(first["value"]["stringValue"], "madang");
    let span = &all["scopeSpans"][0]["spans"][0];
    assert_eq!(span["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(span["parentSpanId"], "00f067aa0ba902b7");
    assert_eq!(span["spanId"].as_str().unwrap().len(), 16);
    assert_eq!((&span["name"], &span["kind"]), (&json!("GET /v1/tracks/{id}"), &json!(2)));
    let nanos = |name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(nanos("endTimeUnixNano") - nanos("startTimeUnixNano"), 1_500_000);
    let attributes = span["attributes"].as_array().unwrap();
    let value = |key: &str| {
        &attributes.iter().find(|one| one["key"] == key).unwrap_or_else(|| panic!("{key}"))["value"]
    };
    assert_eq!(value("http.response.status_code")["intValue"], "200");
    assert_eq!(value("http.route")["stringValue"], "/v1/tracks/{id}");
    assert_eq!(value("madang.cached")["boolValue"], true);
    assert_eq!(span.get("status"), None);
}

/// Sends one span to a collector with these responses in turn; returns the numbers of sent and dropped spans.
fn sent_to(answers: &[&'static str]) -> (u64, u64) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let authority = listener.local_addr().unwrap().to_string();
    let answers = answers.to_vec();
    let collector = std::thread::spawn(move || {
        for answer in answers {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(&stream);
            let (mut head, mut length) = (String::new(), 0);
            while head != "\r\n" {
                head.clear();
                reader.read_line(&mut head).unwrap();
                if let Some(given) = head.strip_prefix("Content-Length: ") {
                    length = given.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            assert!(body.starts_with(b"{\"resourceSpans\":["));
            (&stream).write_all(answer.as_bytes()).unwrap();
        }
    });
    let (sent, dropped) = (Counter::default(), Counter::default());
    let endpoint = crate::config::Endpoint { authority, path: "/v1/traces".to_owned() };
    let address = (Ipv4Addr::LOCALHOST, 8080).into();
    let exporter = spans::Exporter::new(endpoint, address, sent.clone(), dropped.clone());
    let (recorder, records) = with_spans(1.0);
    pass(&recorder, "/", None);
    let (alive, stop) = bounded(0);
    let thread = std::thread::spawn(move || exporter.run(&records, &stop));
    // The collector ends after its last response.
    collector.join().unwrap();
    drop((alive, recorder));
    thread.join().unwrap();
    (sent.get(), dropped.get())
}

#[test]
fn a_busy_collector_is_tried_again_and_one_that_refuses_is_not() {
    let (busy, taken) = ("HTTP/1.1 503 Busy\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n");
    assert_eq!(sent_to(&[taken]), (1, 0));
    assert_eq!(sent_to(&[busy, taken]), (1, 0));
    assert_eq!(sent_to(&["HTTP/1.1 400 Bad Request\r\n\r\n"]), (0, 1));
    assert_eq!(sent_to(&["nonsense that is long enough"]), (0, 1), "and at the stop it is dropped");
}
