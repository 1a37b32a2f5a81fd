//! Settings from flags and the environment, and what is said when one is wrong.

use crate::harness::Madang;

/// The value that `madang config` prints for a key, and the origin it names, if any.
fn printed(text: &str, key: &str) -> (toml::Value, Option<String>) {
    let table: toml::Table = text.parse().unwrap();
    let mut value = toml::Value::Table(table);
    for part in key.split('.') {
        value = value.get(part).unwrap_or_else(|| panic!("no {key} in {text}")).clone();
    }
    let (section, name) = key.split_once('.').unwrap();
    let mut inside = false;
    let line = text.lines().find(|line| {
        if line.starts_with('[') {
            inside = *line == format!("[{section}]");
        }
        inside && line.starts_with(&format!("{name} = "))
    });
    let origin = line.unwrap().split_once("# from ").map(|(_, origin)| origin.to_owned());
    (value, origin)
}

fn config() -> Madang {
    Madang::new(["config"])
}

#[test]
fn the_printed_settings_are_a_file_that_gives_the_same_settings() {
    let flags = ["config", "--set", "tracks.detail=full", "--set", "cache.ttl.tracks=90s"];
    let first = Madang::new(flags).succeeds().stdout;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("copy.toml");
    std::fs::write(&path, &first).unwrap();
    let second = Madang::new(["config", "--config", path.to_str().unwrap()]).succeeds().stdout;
    let (a, b): (toml::Table, toml::Table) = (first.parse().unwrap(), second.parse().unwrap());
    assert_eq!(a, b);
    assert_eq!(printed(&second, "tracks.detail").0.as_str(), Some("full"));
    let origin = printed(&second, "cache.ttl.tracks").1.unwrap();
    assert!(origin.starts_with(&format!("{}:", path.display())), "{origin}");
}

#[test]
fn every_setting_is_printed_with_what_it_means_accepts_and_its_variable() {
    let text = config().succeeds().stdout;
    let lines: Vec<&str> = text.lines().collect();
    let values: Vec<usize> = (0..lines.len())
        .filter(|n| lines[*n].contains(" = ") && !lines[*n].starts_with('#'))
        .collect();
    assert!(values.len() >= 20, "{text}");
    for at in values {
        assert!(lines[at - 2].starts_with("# "), "{}", lines[at]);
        let facts = lines[at - 1];
        for part in ["accepted: ", "default: ", "MADANG_"] {
            assert!(facts.contains(part), "{facts:?} lacks {part:?}");
        }
    }
}

#[test]
fn only_what_was_changed_is_printed_when_asked() {
    assert_eq!(Madang::new(["config", "--changed"]).succeeds().stdout, "");
    let flags = ["config", "--changed", "--set", "cache.mode=off"];
    let text = Madang::new(flags).succeeds().stdout;
    let table: toml::Table = text.parse().unwrap();
    assert_eq!(table, "[cache]\nmode = \"off\"\n".parse::<toml::Table>().unwrap());
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let file = "[tracks]\ndetail = \"low\"\n[server]\nworkers = 3\n[log]\nlevel = \"debug\"\n";
    let flags = ["config", "--set", "tracks.detail=full"];
    let call = Madang::new(flags).file("madang.toml", file);
    let text = call
        .env("MADANG_TRACKS_DETAIL", "high")
        .env("MADANG_SERVER_WORKERS", "5")
        .succeeds()
        .stdout;
    let of = |key| {
        let (value, origin) = printed(&text, key);
        (value.as_str().unwrap().to_owned(), origin)
    };
    let from = |origin: &str| Some(origin.to_owned());
    assert_eq!(of("tracks.detail"), ("full".to_owned(), from("flag --set tracks.detail")));
    let environment = from("environment MADANG_SERVER_WORKERS");
    assert_eq!(of("server.workers"), ("5".to_owned(), environment));
    assert_eq!(of("log.level"), ("debug".to_owned(), from("madang.toml:6")));
    assert_eq!(of("log.format"), ("text".to_owned(), None));
}

#[test]
fn the_later_of_two_equal_flags_wins() {
    let flags = ["config", "--changed", "--set", "cache.mode=off", "--set", "cache.mode=local"];
    assert!(Madang::new(flags).succeeds().stdout.contains("mode = \"local\""));
}

#[test]
fn an_unknown_key_stops_the_start_and_its_neighbour_is_named() {
    for command in ["serve", "config"] {
        Madang::new([command, "--set", "tracks.detial=full"]).fails_with(2).complains(&[
            "tracks.detial",
            "did you mean `tracks.detail`?",
            "--set",
        ]);
    }
    Madang::new(["import", "tracks", "--set", "nonsense=1", "x.gpx"])
        .fails_with(2)
        .complains(&["nonsense", "madang config"]);
    config()
        .env("MADANG_TRACKS_DETIAL", "full")
        .fails_with(2)
        .complains(&["MADANG_TRACKS_DETIAL", "tracks.detail", "environment"]);
}

#[test]
fn a_wrong_value_is_named_with_its_key_and_what_is_accepted() {
    for (key, value, accepted) in [
        ("tracks.detail", "ultra", "full, high, medium or low"),
        ("server.listen", "localhost", "ADDRESS:PORT"),
        ("server.workers", "0", "1 to 256"),
        ("server.header_timeout", "10", "a duration"),
        ("server.max_body", "1MB", "a size"),
        ("cache.mode", "elsewhere", "off, remote, local or local+remote"),
        ("tracks.simplify", "degrees:x", "degrees:TOLERANCE"),
        ("tracks.cache_from_metres", "-1", "a length in metres"),
        ("http.compression", "", "on or off"),
    ] {
        let pair = format!("{key}={value}");
        Madang::new(["serve", "--set", &pair])
            .fails_with(2)
            .complains(&[key, value, accepted, "--set"]);
        let variable = format!("MADANG_{}", key.to_uppercase().replace('.', "_"));
        Madang::new(["serve"])
            .env(&variable, value)
            .fails_with(2)
            .complains(&[key, value, accepted, &variable]);
    }
    Madang::new(["serve", "--listen", "nowhere"]).fails_with(2).complains(&["nowhere", "--listen"]);
}

#[test]
fn a_wrong_log_filter_is_named() {
    Madang::new(["serve", "--set", "log.level=a=b=c"])
        .fails_with(2)
        .complains(&["log.level", "a=b=c"]);
}

#[test]
fn a_flag_without_a_value_is_refused_with_an_example() {
    Madang::new(["config", "--set", "cache.mode"])
        .fails_with(2)
        .complains(&["cache.mode", "KEY=VALUE", "tracks.detail=full"]);
}

#[test]
fn an_unknown_flag_or_subcommand_is_wrong_usage() {
    for args in [&["serve", "--nonsense"][..], &["nonsense"], &["import", "dragons"], &[]] {
        let output = Madang::new(args).fails_with(2);
        assert!(output.stderr.contains("Usage: madang"), "{args:?}: {}", output.stderr);
    }
}

#[test]
fn the_help_of_every_subcommand_shows_an_example() {
    let overview = Madang::new(["--help"]).succeeds().stdout;
    assert!(overview.contains("Examples:"), "{overview}");
    let commands = overview.split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap();
    let mut calls: Vec<Vec<&str>> = commands
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help" && name.chars().all(char::is_lowercase))
        .map(|name| vec![name])
        .collect();
    assert!(calls.len() >= 6, "{calls:?}");
    calls.push(vec!["import", "tracks"]);
    for call in calls {
        let help = Madang::new(call.iter().copied().chain(["--help"])).succeeds().stdout;
        let example = format!("madang {}", call.join(" "));
        let shown = help.split("Examples:").nth(1).is_some_and(|text| text.contains(&example));
        assert!(shown, "no example of `{example}` in its help:\n{help}");
    }
}

#[test]
fn output_that_nobody_reads_is_no_error() {
    let mut shell = crate::harness::command::clean("sh");
    let script = "{ \"$0\" config; echo code $? >&2; } | true";
    shell.args(["-c", script, crate::harness::command::program()]);
    let output = Madang::from_command(shell).run();
    output.is_calm();
    assert_eq!(output.stderr.trim(), "code 0");
}
