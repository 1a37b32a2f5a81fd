//! Servers of several processes.

use madang_lab::{
    Warning,
    metric::{Absent, Metric},
};

use crate::help::{Lab, measured, two};

/// Each request has a process of its own, that lives for a few looks.
const SERVER: &str = r#"
import http.server, os, signal, sys, threading, time

if sys.argv[2] == "forget":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/":
            pid = os.fork()
            if pid == 0:
                while time.process_time() < 0.005: pass
                time.sleep(0.15)
                os._exit(0)
            time.sleep(0.05)
            if sys.argv[2] == "wait":
                threading.Thread(target=os.waitpid, args=(pid, 0)).start()
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *words): pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

fn served(program: &str, slow: &str, fast: &str) -> Lab {
    let variant = |mode: &str| {
        format!(
            "command = [\"python3\", \"server.py\", \"{{port}}\", \"{mode}\"]\n\
             ready = \"http://127.0.0.1:{{port}}/ready\""
        )
    };
    let text = two(&variant(slow), &variant(fast), 1, "");
    let lab = Lab::new("get", &text.replace("300ms", "800ms"));
    std::fs::write(lab.path().join("server.py"), program).unwrap();
    lab
}

#[test]
fn no_figure_is_made_of_cpu_time_that_the_kernel_forgets() {
    let report = served(SERVER, "wait", "forget").run();
    for round in &report.rounds {
        let round_is = (round.variant.as_str(), measured(round));
        let (name, measured) = round_is;
        let server = measured.server.as_ref().unwrap();
        let is_told = measured.warnings.contains(&Warning::CpuUnknown);
        let figure = Metric::CpuPerGoodRequest.of(measured);
        if name == "slow" {
            assert!(server.cpu_seconds.unwrap() > 0.0 && !is_told, "{server:?}");
            assert!(figure.unwrap() > 5000.0, "{server:?}");
        } else {
            assert!(server.cpu_seconds.is_none() && is_told, "{server:?}");
            assert!(server.steps.iter().all(|step| step.cpu_cores.is_none()), "{server:?}");
            assert_eq!(figure, Err(Absent::CpuUnknown));
            assert_eq!(measured.machine.as_ref().unwrap().foreign_cores, None);
        }
    }
    let text = report.to_text();
    assert!(text.contains("their parent ignores SIGCHLD"), "{text}");
}
