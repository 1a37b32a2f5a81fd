//! Where the time of a request goes that a load generator reports: on the way, in the server, or in the generator
//! itself. A server in this process writes down when a request was read and when its answer was written; the
//! generator writes every single value.

use crate::generator::{cpu, k6_name};
use crate::stats::median;
use crate::tools::{k6, madang};
use anyhow::{Context as _, ensure};
use serde::Deserialize;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The path of a request, when it was read and when its answer was about to be written, in µs since 1970.
type Noted = (String, [f64; 2]);

/// The parts of one request, in µs.
#[derive(Default)]
struct Parts {
    reported: Vec<f64>,
    before: Vec<f64>,
    inside: Vec<f64>,
    after: Vec<f64>,
}

/// Nothing where k6 is not installed.
pub fn delays() -> anyhow::Result<String> {
    let Some(name) = k6_name() else { return Ok(String::new()) };
    let work = TempDir::new()?;
    let mut rows = String::new();
    for (users, pace) in [(1, 1), (64, 64), (64, 0)] {
        let (k6, own) = (k6(), madang()?);
        for (name, program, args) in [
            (&*name, Path::new(&k6), ["run", "--quiet", "--no-usage-report"].as_slice()),
            ("madang load", &own, &["load", "--quiet"]),
        ] {
            let parts = measure(program, args, users, pace, work.path())?;
            let load = if pace == 0 {
                format!("{users}, one request after the other")
            } else {
                format!("{users}, a request every {} ms each", pace * PAUSE_MS)
            };
            let [reported, before, inside, after] =
                [parts.reported, parts.before, parts.inside, parts.after].map(|mut part| {
                    part.sort_by(f64::total_cmp);
                    // One figure for the file, not every request.
                    median(&[part[part.len() / 2]])
                });
            writeln!(
                rows,
                "| {load} | {name} | {reported:.0} | {before:.0} | {inside:.0} | {after:.0} |"
            )?;
        }
    }
    Ok(format!(
        "### Response times: the server's part and the generator's\n\nMedians in µs. A server in the measuring process notes when it has read a request and when it is about to write the answer; the generators write every value with `--out json`. The three parts are medians of their own and need not add up.\n\n| virtual users | | `http_req_duration` | start until read by the server | in the server | answer until the end |\n|---|---|---|---|---|---|\n{rows}\n"
    ))
}

/// A single virtual user's pause.
const PAUSE_MS: u32 = 2;

fn measure(
    program: &Path,
    args: &[&str],
    users: u32,
    pace: u32,
    work: &Path,
) -> anyhow::Result<Parts> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    let connections: Arc<Mutex<Vec<JoinHandle<Vec<Noted>>>>> = Arc::default();
    let accepted = connections.clone();
    // Ends with the process; its connections end with the generator.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = std::thread::spawn(move || answer(&stream));
            accepted.lock().expect("nobody panics with it").push(connection);
        }
    });
    let sleep = f64::from(pace * PAUSE_MS) / 1000.0;
    let script = work.join("script.js");
    std::fs::write(
        &script,
        format!(
            "import http from 'k6/http';\nimport {{ sleep }} from 'k6';\nexport const options = {{ vus: {users}, duration: '3s', systemTags: ['name'] }};\nexport default function () {{\n  http.get(`{url}/${{__VU}}-${{__ITER}}`);\n  if ({sleep}) sleep({sleep});\n}}\n"
        ),
    )?;
    let values = work.join("values.json");
    let out = format!("json={}", values.display());
    cpu(program, &[args, &["--out", &out]].concat(), &script, work)?;
    let mut times = HashMap::new();
    for connection in connections.lock().expect("nobody panics with it").drain(..) {
        times.extend(connection.join().expect("a connection's thread does not panic"));
    }
    let mut parts = Parts::default();
    for line in BufReader::new(std::fs::File::open(&values)?).lines() {
        let line: Line = serde_json::from_str(&line?)?;
        let (Some(name), "http_req_duration") = (&line.data.tags.name, &*line.metric) else {
            continue;
        };
        let path = name.strip_prefix(&url).context("a request to this server")?;
        let [read, written] = *times.get(path).with_context(|| format!("{path} was not seen"))?;
        let end = OffsetDateTime::parse(&line.data.time, &Rfc3339)?;
        let end = end.unix_timestamp_nanos() as f64 / 1e3;
        let reported = line.data.value * 1e3;
        parts.reported.push(reported);
        parts.before.push(read - (end - reported));
        parts.inside.push(written - read);
        parts.after.push(end - written);
    }
    ensure!(parts.reported.len() > 100, "{} requests only", parts.reported.len());
    Ok(parts)
}

/// Answers the requests of a connection until it ends.
fn answer(stream: &TcpStream) -> Vec<Noted> {
    let mut noted = Vec::new();
    let mut talk = || -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut input = BufReader::new(stream);
        loop {
            let mut first = String::new();
            if input.read_line(&mut first)? == 0 {
                return Ok(());
            }
            let read = now();
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                if input.read_line(&mut line)? == 0 {
                    return Ok(());
                }
            }
            let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
            noted.push((path, [read, now()]));
            (&*stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
        }
    };
    // Whatever ends a connection: what was noted counts.
    let _ = talk();
    noted
}

/// µs since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

#[derive(Deserialize)]
struct Line {
    metric: String,
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    #[serde(default)]
    time: String,
    #[serde(default)]
    value: f64,
    #[serde(default)]
    tags: Tags,
}

#[derive(Default, Deserialize)]
struct Tags {
    name: Option<String>,
}
