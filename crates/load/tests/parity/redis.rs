//! Valkey or Redis for the script that uses it.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Where Debian installs them.
const PROGRAMS: [&str; 2] = ["/usr/bin/valkey-server", "/usr/bin/redis-server"];

/// The program, if one is installed.
pub fn program() -> Option<&'static str> {
    PROGRAMS.into_iter().find(|program| Path::new(program).exists())
}

/// An empty server; ends when it is dropped.
pub struct Redis {
    child: Child,
    port: u16,
}

impl Redis {
    pub fn start() -> Self {
        // Somebody else may take a port between the two.
        (0..5).find_map(|_| Self::try_start()).expect("one of five ports stays free")
    }

    fn try_start() -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(program().unwrap())
            .args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Self { child, port };
        let is_there = madang_testing::until("the server listens or has ended", || {
            let has_ended = server.child.try_wait().unwrap().is_some();
            let listens = TcpStream::connect(("127.0.0.1", port)).is_ok();
            (has_ended || listens).then_some(!has_ended)
        });
        is_there.then_some(server)
    }

    pub fn address(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
