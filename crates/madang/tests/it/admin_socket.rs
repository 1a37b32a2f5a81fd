//! The socket of `madang admin`: who may use it, what is left behind, and hostile clients.

use crate::admin::{admin, start};
use crate::harness::{DEADLINE, Madang, Setup, command, eventually};
use rustix::process::Signal;
use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

fn connect(dir: &Path) -> UnixStream {
    let stream = UnixStream::connect(dir.join("admin.sock")).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// What is answered to these bytes, as the text of a refusal.
fn refusal(dir: &Path, bytes: &[u8]) -> String {
    let mut stream = connect(dir);
    // A server that has heard enough may have closed.
    let _ = stream.write_all(bytes);
    // The line alone: where it has closed with bytes unread, the end is an error.
    let mut text = String::new();
    BufReader::new(stream).read_line(&mut text).unwrap();
    let reply: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
    reply["Err"].as_str().unwrap().to_owned()
}

fn is_served(dir: &Path) {
    let said = admin(dir, &["status"]).succeeds().stdout;
    assert!(said.contains("takes writes"), "{said}");
}

fn no_server(dir: &Path) {
    let output = admin(dir, &["status"]).fails_with(1);
    output.complains(&[
        "no server is running in the data directory",
        dir.to_str().unwrap(),
        "--data",
    ]);
}

#[test]
fn the_socket_is_the_owners_alone_comes_back_after_a_kill_and_goes_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("admin.sock");
    no_server(dir.path());
    let mut shell = command::clean("sh");
    shell.args(["-c", "umask 0; exec \"$@\"", "sh", command::program()]);
    let mut server = Setup::new().data(dir.path()).start_through(shell);
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    is_served(dir.path());
    server.signal(Signal::KILL);
    server.wait();
    assert!(socket.exists(), "a killed server leaves it: otherwise nothing is tested");
    no_server(dir.path());
    let server = start(dir.path());
    is_served(dir.path());
    server.stop();
    assert!(!socket.exists());
    no_server(dir.path());
}

#[test]
fn a_server_without_a_socket_serves_and_says_why_it_has_none() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("admin.sock"), "precious").unwrap();
    let server = start(dir.path());
    server.until_logged("not a socket");
    server.is_well();
    server.stop();
    assert_eq!(std::fs::read(dir.path().join("admin.sock")).unwrap(), b"precious");

    let long = dir.path().join("d".repeat(120));
    let server = start(&long);
    server.until_logged("107 bytes");
    server.is_well();
    admin(&long, &["status"]).fails_with(1).complains(&["107 bytes"]);
}

#[test]
fn hostile_bytes_are_refused_and_harm_nobody() {
    let dir = tempfile::tempdir().unwrap();
    // Half a command, and none.
    let hasty = Setup::new().data(dir.path()).set("server.header_timeout", "500ms").start();
    for half in [&b"{\"command\":"[..], b""] {
        assert!(refusal(dir.path(), half).contains("did not arrive in time"));
    }
    hasty.stop();
    let server = start(dir.path());
    for wrong in [
        &b"\n"[..],
        b"GET / HTTP/1.1\r\n\r\n",
        b"{\"command\":\"nonsense\"}\n",
        b"{\"command\":\"post-delete\"}\n",
        b"{\"command\":\"post-delete\",\"id\":\"1\"}\n",
        b"{\"command\":\"post-delete\",\"id\":1,\"force\":true}\n",
        b"\xff\xfe\0\n",
    ] {
        let text = refusal(dir.path(), wrong);
        assert!(text.contains("cannot read the command"), "{wrong:?}: {text}");
    }
    let deep = "[".repeat(4000) + "\n";
    assert!(refusal(dir.path(), deep.as_bytes()).contains("cannot read the command"));
    for long in [4096, 5000] {
        let text = refusal(dir.path(), &vec![b'x'; long]);
        assert!(text.contains("longer than 4096 bytes"), "{text}");
    }
    // One that says that nothing more will come is not answered.
    let mut stream = connect(dir.path());
    stream.write_all(b"{\"command\":\"cache-clear\"}").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "");
    is_served(dir.path());
    assert_eq!(admin(dir.path(), &["audit"]).succeeds().stdout, "", "none of it was carried out");
    server.is_well();
}

#[test]
fn silent_connections_keep_a_command_waiting_for_a_while_only() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().data(dir.path()).set("server.header_timeout", "1s").start();
    let silent: Vec<_> = (0..20).map(|_| connect(dir.path())).collect();
    is_served(dir.path());
    drop(silent);
    server.stop();
}

#[test]
fn a_silent_connection_does_not_keep_the_server_from_ending() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().data(dir.path()).set("server.header_timeout", "10min").start();
    let mut silent = connect(dir.path());
    silent.write_all(b"{").unwrap();
    server.stop();
}

#[test]
fn a_command_is_carried_out_when_its_sender_has_left() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let mut stream = connect(dir.path());
    stream.write_all(b"{\"command\":\"maintenance-on\",\"message\":null}\n").unwrap();
    drop(stream);
    eventually("it is on", || {
        server.get("/health/ready").text().contains("maintenance").then_some(())
    });
    eventually("its outcome is written down", || {
        admin(dir.path(), &["audit"])
            .succeeds()
            .stdout
            .contains("maintenance on  done")
            .then_some(())
    });
}

/// The program as another user, which only root can start.
fn as_nobody(dir: &Path, args: &[&str]) -> Option<Madang> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    // Where nobody can run it.
    let program = dir.join("madang");
    // By another process: a descriptor that is open for writing here would be inherited by whatever another test starts just
    // then, and as long as that has it the program cannot be run.
    let copied = command::clean("cp").arg(command::program()).arg(&program).status();
    assert!(copied.unwrap().success());
    let mut setpriv = command::clean("setpriv");
    setpriv.args(["--reuid", "65534", "--clear-groups"]).arg(&program);
    setpriv.args(["admin", "--data"]).arg(dir).args(args);
    let mut probe = command::clean("setpriv");
    probe.args(["--reuid", "65534", "--clear-groups", "true"]);
    probe.status().is_ok_and(|status| status.success()).then(|| Madang::from_command(setpriv))
}

#[test]
fn another_user_is_refused_by_the_file_and_by_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let Some(status) = as_nobody(dir.path(), &["status"]) else {
        return madang_testing::left_out(
            "skipped",
            "madang",
            false,
            "only root can be another user",
        );
    };
    status.fails_with(1).complains(&["not permitted", "as root"]);
    let socket = dir.path().join("admin.sock");
    std::fs::set_permissions(socket, Permissions::from_mode(0o666)).unwrap();
    let status = as_nobody(dir.path(), &["status"]).unwrap();
    status.fails_with(1).complains(&["not permitted: only user 0"]);
    server.until_logged("refused an admin command");
}

#[test]
fn what_is_no_server_is_told_from_one() {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("admin.sock")).unwrap();
    let closing = std::thread::spawn(move || drop(listener.accept().unwrap()));
    let output = admin(dir.path(), &["status"]).fails_with(1);
    output.complains(&["without a reply", "madang admin audit"]);
    closing.join().unwrap();
    for wrong in
        [&[][..], &["nonsense"], &["post", "delete", "x"], &["user"], &["audit", "--last", "x"]]
    {
        admin(dir.path(), wrong).fails_with(2);
    }
}
