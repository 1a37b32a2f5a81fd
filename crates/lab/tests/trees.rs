//! Servers of several processes.

use madang_lab::Warning;
use madang_lab::metric::{Absent, Metric};

use crate::help::{Lab, measured, two};

/// `forget` and `wait`: each request has a process of its own that lives for a few samples. `preload`: four processes
/// share memory that one of them has read before; `alone`: there is only that one. `now` and `later`: a request takes
/// 10 ms of CPU time, before the response or a second after it, and `/drained` responds when nothing is left to do;
/// `afterwards`: more than the server can do meanwhile.
const SERVER: &str = r#"
import http.server, os, signal, sys, threading, time

mode = sys.argv[2]
if mode == "forget":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if mode in ["preload", "alone"]:
    table = bytearray(b"x" * (48 << 20))
for _ in range(4 if mode == "preload" else 0):
    if os.fork() == 0:
        time.sleep(600)

def work():
    begun = time.thread_time()
    while time.thread_time() - begun < 0.01: pass

pending = 0
changed = threading.Condition()

def add(count):
    global pending
    with changed:
        pending += count
        changed.notify_all()

def work_later():
    work()
    add(-1)

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/" and mode in ["forget", "wait"]:
            pid = os.fork()
            if pid == 0:
                while time.process_time() < 0.02: pass
                time.sleep(0.15)
                os._exit(0)
            time.sleep(0.05)
            if mode == "wait":
                threading.Thread(target=os.waitpid, args=(pid, 0)).start()
        if self.path == "/" and mode in ["now", "later"]:
            time.sleep(0.02)
            if mode == "now":
                work()
            else:
                add(1)
                threading.Timer(1, work_later).start()
        if self.path == "/drained":
            with changed:
                changed.wait_for(lambda: pending == 0)
        if self.path == "/" and mode == "afterwards":
            time.sleep(0.02)
            threading.Thread(target=lambda: [work() for _ in range(9)]).start()
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *words): pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

fn served(slow: &str, fast: &str, metric: &str) -> Lab {
    let variant = |mode: &str| {
        format!(
            "command = [\"python3\", \"server.py\", \"{{port}}\", \"{mode}\"]\n\
             ready = \"http://127.0.0.1:{{port}}/ready\""
        )
    };
    let text = two(&variant(slow), &variant(fast), 1, "");
    let lab =
        Lab::new("get", &text.replace("300ms", "800ms").replace("http_req_duration.p50", metric));
    std::fs::write(lab.path().join("server.py"), SERVER).unwrap();
    lab
}

#[test]
fn no_figure_is_made_of_cpu_time_that_the_kernel_forgets() {
    let report = served("wait", "forget", "cpu_per_good_request").run();
    for round in &report.rounds {
        let measured = measured(round);
        let server = measured.server.as_ref().unwrap();
        let is_reported = measured.warnings.contains(&Warning::CpuUnknown);
        let figure = Metric::CpuPerGoodRequest.value_for_ratio(measured);
        if round.variant == "slow" {
            assert!(server.cpu_seconds.unwrap() > 0.0 && !is_reported, "{server:?}");
            // 20,000 in the child, and a few thousand for its fork.
            assert!(figure.unwrap() > 10_000.0, "{server:?}");
        } else {
            assert!(server.cpu_seconds.is_none() && is_reported, "{server:?}");
            assert!(server.steps.iter().all(|step| step.cpu_cores.is_none()), "{server:?}");
            assert_eq!(figure, Err(Absent::CpuUnknown));
            assert_eq!(measured.machine.as_ref().unwrap().foreign_cores, None);
        }
    }
    let text = report.to_text();
    assert!(text.contains("their parent ignores SIGCHLD"), "{text}");
}

#[test]
fn memory_that_workers_share_is_needed_once() {
    let report = served("alone", "preload", "peak_rss").run();
    for round in &report.rounds {
        let server = measured(round).server.as_ref().unwrap();
        let memory = Metric::PeakMemory.value_for_ratio(measured(round)).unwrap();
        let rss = Metric::PeakRss.value_for_ratio(measured(round)).unwrap();
        assert!(memory > f64::from(48 << 20), "{server:?}");
        if round.variant == "slow" {
            assert!((memory - rss).abs() < 1.0, "{server:?}");
        } else {
            assert!(memory < f64::from(120 << 20) && rss > f64::from(5 * (48 << 20)), "{server:?}");
        }
    }
    let text = report.to_text();
    assert!(text.contains("`peak_rss` of `fast` counts what its processes share"), "{text}");
    assert!(!text.contains("`peak_rss` of `slow`"), "{text}");
}

#[test]
fn work_put_off_until_drain_is_done_belongs_to_the_requests() {
    let lab = served("now", "later", "cpu_per_good_request");
    let path = lab.path().join("experiment.toml");
    let ask =
        "import os, urllib.request as web; web.urlopen(os.environ['LAB_BASE_URL'] + '/drained')";
    let drain = format!("[hooks]\ndrain = [\"python3\", \"-c\", {ask:?}]\n");
    let text = std::fs::read_to_string(&path).unwrap() + &drain;
    std::fs::write(&path, text).unwrap();
    let report = lab.run();
    for round in &report.rounds {
        let measured = measured(round);
        let server = measured.server.as_ref().unwrap();
        let cpu = Metric::CpuPerGoodRequest.value_for_ratio(measured).unwrap();
        // Without the delayed work it would be a few hundred; CPU time at the window's ends is interpolated.
        assert!(cpu > 8000.0, "{cpu} us, {server:?}");
        assert!(!measured.warnings.contains(&Warning::BusyAfterLoad));
        if round.variant == "fast" {
            assert!(server.drain_cpu_seconds > server.cpu_seconds, "{server:?}");
        }
    }
}

#[test]
fn a_server_that_works_after_the_load_is_reported() {
    let report = served("now", "afterwards", "cpu_per_good_request").run();
    for round in &report.rounds {
        let measured = measured(round);
        let is_reported = measured.warnings.contains(&Warning::BusyAfterLoad);
        assert_eq!(is_reported, round.variant == "fast", "{:?}", measured.server);
        assert_eq!(measured.server.as_ref().unwrap().drain_cpu_seconds, None);
    }
}
