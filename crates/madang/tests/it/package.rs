//! The Debian package: what is in it works, and the same program makes the same package.

use crate::harness::{Connection, Madang, command};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn package(into: &Path) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/deb");
    let mut script = command::clean(script.to_str().unwrap());
    // A program with debug information would be packed for a minute.
    script.env("COMPRESSION", "none").arg(command::program()).arg(into);
    let made = script.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    PathBuf::from(String::from_utf8(made.stdout).unwrap().trim())
}

fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_package_is_the_same_twice_and_what_is_in_it_serves() {
    let dir = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| {
        let into = dir.path().join(name);
        fs::create_dir(&into).unwrap();
        package(&into)
    });
    assert!(fs::read(&one).unwrap() == fs::read(&other).unwrap(), "two packages differ");
    let root = dir.path().join("root");
    succeeds(Command::new("dpkg-deb").arg("-x").arg(&one).arg(&root));
    let scripts = dir.path().join("control");
    succeeds(Command::new("dpkg-deb").arg("-e").arg(&one).arg(&scripts));
    for script in ["postinst", "prerm", "postrm"] {
        succeeds(Command::new("sh").arg("-n").arg(scripts.join(script)));
    }
    let unit = fs::read_to_string(root.join("usr/lib/systemd/system/madang.service")).unwrap();
    assert!(
        unit.contains("ExecStart=/usr/bin/madang serve") && !unit.contains("/local/"),
        "{unit}"
    );
    let completions = root.join("usr/share/bash-completion/completions/madang");
    succeeds(Command::new("bash").arg("-n").arg(completions));
    let man = root.join("usr/share/man/man1/madang-backup.1.gz");
    let page = succeeds(Command::new("zcat").arg(man));
    assert!(page.contains("standard output") && page.contains("keep"), "{page}");

    // What the unit runs, with the paths below the root.
    let mut serve = command::clean(root.join("usr/bin/madang").to_str().unwrap());
    serve.env("MADANG_CONFIG", root.join("etc/madang/madang.toml"));
    serve.env("MADANG_DATA_DIR", dir.path().join("data"));
    serve.args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = serve.spawn().unwrap();
    let mut said = BufReader::new(server.stdout.take().unwrap()).lines();
    let first = said.next().unwrap().unwrap();
    let address = first.strip_prefix("listening http://").unwrap().parse().unwrap();
    let ready = Connection::open(address).get("/health/ready").status;
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(ready, 200);
    assert!(dir.path().join("data/madang.db").is_file());
}

#[test]
fn every_shell_has_completions_and_the_version_names_a_build() {
    for shell in ["bash", "zsh", "fish"] {
        let said = Madang::new(["completions", shell]).succeeds();
        assert!(said.stdout.contains("compare") && said.stdout.contains("restore"), "{shell}");
    }
    Madang::new(["completions", "cmd"]).fails_with(2);
    let said = Madang::new(["--version"]).succeeds();
    assert!(
        said.stdout.starts_with("madang 0.") && said.stdout.contains("build"),
        "{}",
        said.stdout
    );
}
