//! Start and readiness of commands.

use madang_testing::{Finish as _, until};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use madang_stack::http::Url;
use madang_stack::{CpuList, Error, Exit, Output, Patience, PortReservation, Spec, Supervisor};

use crate::help::{DEADLINE, sh, supervisor};

/// For waits that are meant to time out.
const SHORT: Duration = Duration::from_millis(100);

#[test]
fn a_ready_line_is_found_after_other_lines() {
    let process = supervisor()
        .spawn(&sh("echo starting; echo listening http://127.0.0.1:1; sleep 600"))
        .unwrap();
    let address = process.ready_line("listening ", DEADLINE).unwrap();
    assert_eq!(address, "http://127.0.0.1:1");
    assert_eq!(process.stdout_lines()[0], "starting");
}

#[test]
fn a_command_that_never_gets_ready_is_named_with_its_last_words() {
    let process = supervisor().spawn(&sh("echo no disk >&2; echo ready; sleep 600")).unwrap();
    process.ready_line("ready", DEADLINE).unwrap();
    until("its last words", || process.stderr_tail().0.contains("no disk").then_some(()));
    let error = process.ready_line("listening ", SHORT).unwrap_err();
    assert!(matches!(error, Error::NotReady { .. }), "{error:?}");
    let text = error.to_string();
    for part in ["`sh`", "100ms", "`listening …`", "no disk"] {
        assert!(text.contains(part), "no {part} in: {text}");
    }
}

#[test]
fn a_command_that_ends_before_it_is_ready_is_named_with_its_exit_and_last_words() {
    let process = supervisor().spawn(&sh("echo no disk >&2; exit 4")).unwrap();
    let error = process.ready_line("listening ", DEADLINE).unwrap_err();
    let Error::EndedEarly { exit, stderr, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*exit, stderr.0.as_str()), (Exit::Code(4), "no disk\n"));
    let url = Url::parse("http://127.0.0.1:1/").unwrap();
    let error = process.ready_http(&url, false, DEADLINE).unwrap_err();
    assert!(matches!(error, Error::EndedEarly { .. }), "{error:?}");
}

#[test]
fn nothing_of_what_a_command_said_is_still_on_its_way_when_it_is_gone() {
    for round in 0..50 {
        let process = supervisor().spawn(&sh("seq 1000 >&2; echo done")).unwrap();
        assert_eq!(process.wait(DEADLINE), Some(Exit::Code(0)));
        let tail = process.stderr_tail();
        assert!(tail.0.ends_with("\n1000\n"), "round {round}: {tail:?}");
        assert_eq!(process.stdout_lines(), ["done"], "round {round}");
    }
}

#[test]
fn last_words_are_also_read_from_a_log_file() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let spec = sh("echo no disk >&2; exit 4").stderr(Output::File(log.path().to_owned()));
    let process = supervisor().spawn(&spec).unwrap();
    let error = process.ready_line("listening ", DEADLINE).unwrap_err();
    assert!(error.to_string().contains("no disk"), "{error}");
}

#[test]
fn a_program_that_does_not_exist_is_told_from_a_broken_supervisor() {
    let error = supervisor().spawn(&Spec::new("/does/not/exist")).unwrap_err();
    let Error::Start { source, .. } = &error else { panic!("{error:?}") };
    assert_eq!(source.kind(), std::io::ErrorKind::NotFound);

    let error = supervisor().spawn(&sh("exit").dir("/does/not/exist")).unwrap_err();
    assert!(matches!(error, Error::Start { .. }), "{error:?}");

    let none = Supervisor::new("/does/not/exist", ["supervise"]);
    let error = none.spawn(&sh("exit")).unwrap_err();
    assert!(matches!(error, Error::Supervise { .. }), "{error:?}");

    // A program that runs, but is no supervisor.
    let wrong = Supervisor::new("true", ["supervise"]);
    let error = wrong.spawn(&sh("exit")).unwrap_err();
    assert!(matches!(error, Error::Supervise { .. }), "{error:?}");
}

#[test]
fn arguments_environment_and_directory_arrive_as_given() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"printf 'ready %s|%s|%s|%s\n' "$1" "$WORD" "$HOME" "$(pwd)"; exit"#;
    let spec = sh(script).args(["-", "--owner two  words"]).env("WORD", "ö$x");
    let spec = spec.env_remove("HOME").dir(dir.path());
    let process = supervisor().spawn(&spec).unwrap();
    let line = process.ready_line("ready ", DEADLINE).unwrap();
    let real = dir.path().canonicalize().unwrap();
    assert_eq!(line, format!("--owner two  words|ö$x||{}", real.display()));
}

#[test]
fn the_command_and_its_children_run_on_the_cpus_they_were_given() {
    let allowed = CpuList::allowed().unwrap();
    let last = CpuList::new(allowed.as_slice().last().copied()).unwrap();
    let script = "sh -c 'grep Cpus_allowed_list /proc/self/status'; exit";
    let process = supervisor().spawn(&sh(script).cpus(last.clone())).unwrap();
    let list = process.ready_line("Cpus_allowed_list:", DEADLINE).unwrap();
    assert_eq!(list, last.to_string());
}

#[test]
fn a_flood_of_output_neither_blocks_the_command_nor_fills_the_memory() {
    let script = "head -c 30000000 /dev/zero; yes | head -c 3000000; echo; echo last >&2; exit 5";
    let process = supervisor().spawn(&sh(script)).unwrap();
    assert_eq!(process.wait(DEADLINE), Some(Exit::Code(5)));
    assert!(process.stdout_lines().len() <= 100);
}

#[test]
fn a_server_is_ready_once_it_answers_with_success() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/health", listener.local_addr().unwrap());
    let answers = std::thread::spawn(move || {
        for answer in ["HTTP/1.1 503 Busy\r\n\r\n", "not HTTP\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let count = stream.read(&mut request).unwrap();
            assert!(request[..count].starts_with(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:"));
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let process = supervisor().spawn(&sh("sleep 600")).unwrap();
    process.ready_http(&Url::parse(&url).unwrap(), false, DEADLINE).unwrap();
    answers.join().unwrap();
}

#[test]
fn a_port_nobody_listens_on_is_never_ready() {
    let reservation = PortReservation::new().unwrap();
    let url = Url::parse(&format!("http://127.0.0.1:{}/", reservation.port())).unwrap();
    let process = supervisor().spawn(&sh("sleep 600")).unwrap();
    // Long enough to be refused at least once.
    let error = process.ready_http(&url, false, 10 * SHORT).unwrap_err();
    assert!(matches!(error, Error::NotReady { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&url.to_string()) && text.contains("refused"), "{text}");
}

#[test]
fn a_wait_for_readiness_can_be_given_up() {
    let process = supervisor().spawn(&sh("sleep 600")).unwrap();
    let now = Patience::new(DEADLINE, &|| true);
    let error = process.ready_line("listening ", now).unwrap_err();
    assert!(matches!(error, Error::GivenUp { .. }), "{error:?}");
    // Also for a server that accepts a connection and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Url::parse(&format!("http://{}/", silent.local_addr().unwrap())).unwrap();
    let questions = std::cell::Cell::new(0);
    let third = || questions.replace(questions.get() + 1) >= 2;
    let error = process.ready_http(&url, false, Patience::new(DEADLINE, &third)).unwrap_err();
    assert!(matches!(error, Error::GivenUp { .. }), "{error:?}");
}

#[test]
fn a_stop_can_be_cut_short() {
    let process = supervisor().spawn(&sh("trap '' TERM; echo ready; sleep 600")).unwrap();
    process.ready_line("ready", DEADLINE).unwrap();
    let hours = Duration::from_secs(100_000);
    assert_eq!(process.stop(Patience::new(hours, &|| true)).unwrap(), Exit::Signal(9));
}

#[test]
fn variables_with_a_prefix_are_removed_unless_they_were_set() {
    assert!(std::env::var_os("PATH").is_some(), "nothing to remove");
    let spec = Spec::new("/bin/sh").arg("-c").arg("echo ready $PAT; /usr/bin/env; exit");
    let spec = spec.env("PAT", "own").env_remove_prefix("PA");
    let process = supervisor().spawn(&spec).unwrap();
    assert_eq!(process.ready_line("ready ", DEADLINE).unwrap(), "own");
    process.wait(DEADLINE).unwrap();
    let lines = process.stdout_lines();
    assert!(lines.contains(&"PAT=own".to_owned()), "{lines:?}");
    assert!(!lines.iter().any(|line| line.starts_with("PATH=")), "{lines:?}");
}

#[test]
fn the_supervise_subcommand_run_by_hand_refuses_politely() {
    let output =
        std::process::Command::new(crate::help::FIXTURE).args(["supervise", "ls"]).finish();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("started by the program itself"));
}
