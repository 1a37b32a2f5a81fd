//! Full and read-only disks.

use crate::harness::namespace::{on_read_only_disk, on_small_disk};
use crate::harness::{Madang, Setup, data, stores};

fn import_args(mut command: std::process::Command, dir: &std::path::Path) -> std::process::Command {
    command.args(["import", "tracks", "--data"]).arg(dir);
    command
}

#[test]
fn a_read_only_directory_is_refused_with_its_reason() {
    let dir = stores::bundled();
    let mut serve = on_read_only_disk(dir.path());
    serve.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(dir.path());
    let output = Madang::from_command(serve).fails_with(6);
    output.complains(&[dir.path().to_str().unwrap(), "ead-only"]);
    let mut import = import_args(on_read_only_disk(dir.path()), dir.path());
    import.arg(data::bundled_track("us_ecology_trail_route_only.gpx"));
    Madang::from_command(import).fails_with(6).complains(&["ead-only"]);
}

#[test]
fn an_import_onto_a_full_disk_names_what_it_refused_and_keeps_what_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let rows = data::bundled_rows();
    let files: Vec<String> = rows.iter().map(|row| row.path.display().to_string()).collect();
    let prepare = format!(
        "\"$MADANG\" import tracks --data \"$DIR\" {} >&2\necho \"code $?\" >&2",
        files.join(" ")
    );
    let command = on_small_disk(dir.path(), "700k", &prepare);
    let mut server = Setup::new().data(dir.path()).start_through(command);
    let log = server.until_logged("serving");
    assert!(!log.is_empty());
    let text = server.log();
    assert!(!text.contains("panicked"), "{text}");
    let count = |word: &str| -> usize {
        let line = text.lines().find(|line| line.starts_with("imported ")).expect("a summary");
        let after = line.split(&format!("{word} ")).nth(1).unwrap();
        after.split([',', ' ']).next().unwrap().parse().unwrap()
    };
    assert!(text.contains("code 1\n"), "{text}");
    assert!(count("refused") > 0, "the disk was not full: {text}");
    let refusals: Vec<&str> = text.lines().filter(|l| l.starts_with("refused ")).collect();
    assert_eq!(refusals.len(), count("refused"));
    for line in &refusals {
        assert!(line.contains("full") || line.contains("space"), "no clear reason: {line}");
    }
    let tracks = server.tracks();
    assert_eq!(tracks.len(), count("imported"), "acknowledged and kept differ");
    for track in &tracks {
        let body = server.get(&format!("/v1/tracks/{}?detail=full", track["id"]));
        assert_eq!(body.json()["pointsReturned"], track["pointsTotal"]);
    }
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_server_on_a_full_disk_still_reads() {
    let dir = tempfile::tempdir().unwrap();
    let rows = data::bundled_rows();
    let small = rows.iter().find(|row| row.points == 139).unwrap();
    // All room is taken by somebody else after a good import.
    let prepare = format!(
        "\"$MADANG\" import tracks --data \"$DIR\" {} >&2 || exit 98\n\
         dd if=/dev/zero of=ballast bs=4k 2>/dev/null\ntrue",
        small.path.display()
    );
    let command = on_small_disk(dir.path(), "1m", &prepare);
    let server = Setup::new().data(dir.path()).start_through(command);
    let id = server.track_of(139);
    for detail in ["full", "low"] {
        assert_eq!(server.get(&format!("/v1/tracks/{id}?detail={detail}")).status, 200);
    }
    server.is_well();
}

#[test]
fn a_new_store_on_a_full_disk_is_refused_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let fill = "dd if=/dev/zero of=ballast bs=4k 2>/dev/null\ntrue";
    let mut serve = on_small_disk(dir.path(), "64k", fill);
    serve.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(dir.path());
    let output = Madang::from_command(serve).fails_with(6);
    assert!(output.stderr.contains("full") || output.stderr.contains("space"), "{}", output.stderr);
}
