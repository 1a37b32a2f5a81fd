//! `madang.toml`.

use crate::harness::Madang;

/// Runs `madang config` with this file, which must be refused.
fn refused(text: &str) -> String {
    let output = Madang::new(["config"]).file("madang.toml", text).fails_with(2);
    assert_eq!(output.stdout, "");
    output.is_calm();
    output.stderr
}

/// Runs `madang config --changed` with this file.
fn changed(text: &str) -> toml::Table {
    let output = Madang::new(["config", "--changed"]).file("madang.toml", text).succeeds();
    output.stdout.parse().unwrap()
}

#[test]
fn a_file_that_is_no_toml_is_refused_with_its_line() {
    for (text, line) in [
        ("[tracks]\ndetail = \n", "line 2"),
        ("[tracks]\n\ndetail = \"full\n", "line 3"),
        ("[tracks\n", "line 1"),
        ("[tracks]\ndetail = \"low\"\ndetail = \"full\"\n", "line 3"),
    ] {
        let said = refused(text);
        assert!(said.contains("madang.toml") && said.contains(line), "{said}");
    }
}

#[test]
fn an_unknown_key_is_refused_with_its_line() {
    let said = refused("[tracks]\ndetail = \"low\"\n[cache]\nmod = \"off\"\n");
    for part in ["madang.toml:4", "cache.mod", "did you mean `cache.mode`?"] {
        assert!(said.contains(part), "{said:?} lacks {part:?}");
    }
}

#[test]
fn a_wrong_value_is_refused_with_its_line() {
    let said = refused("[server]\nworkers = \"auto\"\nmax_body = \"a lot\"\n");
    for part in ["madang.toml:3", "server.max_body", "a lot", "a size"] {
        assert!(said.contains(part), "{said:?} lacks {part:?}");
    }
    assert_eq!(said.lines().count(), 1);
}

#[test]
fn a_list_or_a_date_where_one_value_belongs_is_refused() {
    for value in ["[1, 2]", "2026-11-20", "[{a = 1}]"] {
        let said = refused(&format!("[server]\nworkers = {value}\n"));
        assert!(said.contains("server.workers"), "{said}");
    }
    let said = refused("[[server]]\nworkers = 2\n");
    assert!(said.contains("server"), "{said}");
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("latin1.toml");
    std::fs::write(&path, b"# caf\xe9\n").unwrap();
    Madang::new(["config", "--config", path.to_str().unwrap()])
        .fails_with(2)
        .complains(&["latin1.toml", "UTF-8"]);
}

#[test]
fn what_would_fail_with_a_file_is_said_and_nothing_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let (path, data) = (dir.path().join("node.toml"), dir.path().join("data"));
    let mut text = format!("[server]\nlisten = \"127.0.0.1:0\"\n[data]\ndir = {data:?}\n");
    std::fs::write(&path, &text).unwrap();
    let check = ["check", "--config", path.to_str().unwrap()];
    let said = Madang::new(check).succeeds().stdout;
    assert!(said.starts_with("settings: right\n"), "{said}");
    assert!(said.contains("data.dir: ") && said.contains("store: "), "{said}");
    assert!(!data.exists());
    text += "[tracks]\ndetail = \"nonsense\"\n";
    std::fs::write(&path, &text).unwrap();
    Madang::new(check).fails_with(2).complains(&["node.toml", "tracks.detail", "nonsense"]);
}

#[test]
fn a_named_file_must_be_there() {
    Madang::new(["serve", "--config", "/nowhere/madang.toml"])
        .fails_with(2)
        .complains(&["/nowhere/madang.toml", "cannot be read"]);
    Madang::new(["config"])
        .env("MADANG_CONFIG", "/nowhere/madang.toml")
        .fails_with(2)
        .complains(&["/nowhere/madang.toml"]);
}

#[test]
fn values_may_be_written_as_toml_writes_them() {
    let text = "http.compression = false\n\
                [server]\nworkers = 2\nmax_connections = 1_000\nmax_body = 0x400\n\
                [tracks]\ncache_from_metres = 12_500.5\n[cache]\nttl = { tracks = \"5min\" }\n";
    let table = changed(text);
    let of = |section: &str, name: &str| table[section][name].as_str().unwrap().to_owned();
    assert_eq!(of("http", "compression"), "false");
    assert_eq!(of("server", "workers"), "2");
    assert_eq!(of("server", "max_connections"), "1000");
    assert_eq!(of("server", "max_body"), "1024", "hexadecimal is a number like any other");
    assert_eq!(of("tracks", "cache_from_metres"), "12500.5");
    assert_eq!(table["cache"]["ttl"]["tracks"].as_str(), Some("5min"));
}

#[test]
fn an_empty_file_changes_nothing() {
    assert!(changed("").is_empty());
    assert!(changed("# nothing\n[server]\n").is_empty());
}
