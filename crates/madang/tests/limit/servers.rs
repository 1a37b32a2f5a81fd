//! Servers whose limit is known.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How a server behaves.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Serves one request after another, each for so long.
    Serial(Duration),
    /// Refuses everything.
    Refusing,
    /// Answers at once, but never what comes when there were so many in the second before.
    Hanging(usize),
}

/// A server on a port of its own, which lives as long as the test.
pub fn server(kind: Kind) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(VecDeque::new()));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let seen = seen.clone();
            // A client that leaves ends its thread, not the server.
            std::thread::spawn(move || serve(&stream, kind, &seen));
        }
    });
    url
}

fn serve(stream: &TcpStream, kind: Kind, seen: &Mutex<VecDeque<Instant>>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::from("x");
        while line.trim() != "" {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
        }
        let status = match kind {
            Kind::Refusing => "503 No",
            Kind::Serial(time) => {
                let _turn = seen.lock().unwrap();
                std::thread::sleep(time);
                "200 OK"
            }
            Kind::Hanging(most) => {
                let mut seen = seen.lock().unwrap();
                let now = Instant::now();
                seen.retain(|then| now.duration_since(*then) < Duration::from_secs(1));
                seen.push_back(now);
                if seen.len() > most {
                    continue;
                }
                "200 OK"
            }
        };
        let mut writer = stream;
        write!(writer, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")?;
    }
}
