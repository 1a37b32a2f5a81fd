//! `scripts/demo`: every step of the tour shows something.

use crate::harness::command::{clean, program};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

/// Runs the tour with this program, without the comparison at its end.
fn tour(program: &str) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/demo");
    let mut command = clean("sh");
    command.arg(script).env("DEMO_MADANG", program).env("DEMO_COMPARE", "no");
    command.output().unwrap()
}

#[test]
fn every_step_of_the_tour_shows_something() {
    let output = tour(program());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for step in 1..=8 {
        assert!(said.contains(&format!("{step}. ")), "no step {step}: {said}");
    }
}

#[test]
fn a_tour_of_an_empty_store_fails_and_names_the_request() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("madang");
    let text = format!("#!/bin/sh\nshift 2\nexec {} serve \"$@\"\n", program());
    std::fs::write(&empty, text).unwrap();
    std::fs::set_permissions(&empty, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = tour(empty.to_str().unwrap());
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("/v1/tracks?near=54.4,-3.2&limit=2"), "{said}");
    assert!(said.contains("empty list"), "{said}");
}
