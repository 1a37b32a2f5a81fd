//! What the workspace depends on is what `deny.toml` allows: licences, one version of each crate, one
//! registry. `cargo deny` reads the same file; it takes minutes to build, so it is left to `make drills`.

use crate::harness::command::clean;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The packages that are really built here, by name.
fn packages() -> Vec<Value> {
    let mut cargo = clean(env!("CARGO"));
    cargo.args(["metadata", "--locked", "--offline", "--format-version", "1"]);
    cargo.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let used = all["resolve"]["nodes"].as_array().unwrap().iter();
    let used: BTreeSet<String> = used.map(|it| it["id"].as_str().unwrap().to_owned()).collect();
    let Value::Array(packages) = all["packages"].take() else { panic!("no packages") };
    packages.into_iter().filter(|it| used.contains(it["id"].as_str().unwrap())).collect()
}

fn rules() -> toml::Table {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deny.toml");
    std::fs::read_to_string(file).unwrap().parse().unwrap()
}

/// Whether an SPDX expression is satisfied by what is allowed. `/` is how older crates write OR.
fn is_allowed(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let text = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let (satisfied, rest) = either(&words, allowed);
    assert!(rest.is_empty(), "{expression} was read only up to {rest:?}");
    satisfied
}

fn either<'a>(words: &'a [&'a str], allowed: &BTreeSet<&str>) -> (bool, &'a [&'a str]) {
    let (mut satisfied, mut rest) = both(words, allowed);
    while let ["OR", more @ ..] = rest {
        let (other, left) = both(more, allowed);
        (satisfied, rest) = (satisfied | other, left);
    }
    (satisfied, rest)
}

fn both<'a>(words: &'a [&'a str], allowed: &BTreeSet<&str>) -> (bool, &'a [&'a str]) {
    let (mut satisfied, mut rest) = one(words, allowed);
    while let ["AND", more @ ..] = rest {
        let (other, left) = one(more, allowed);
        (satisfied, rest) = (satisfied & other, left);
    }
    (satisfied, rest)
}

fn one<'a>(words: &'a [&'a str], allowed: &BTreeSet<&str>) -> (bool, &'a [&'a str]) {
    match words {
        ["(", inside @ ..] => {
            let (satisfied, rest) = either(inside, allowed);
            (satisfied, rest.strip_prefix(&[")"]).expect("a closing bracket"))
        }
        // An exception only adds to what is permitted.
        [name, "WITH", _, rest @ ..] => (allowed.contains(name), rest),
        [name, rest @ ..] => (allowed.contains(name), rest),
        [] => panic!("a licence is missing"),
    }
}

#[test]
fn every_licence_is_allowed_and_every_source_is_the_registry() {
    let rules = rules();
    let allowed = rules["licenses"]["allow"].as_array().unwrap();
    let allowed: BTreeSet<&str> = allowed.iter().map(|it| it.as_str().unwrap()).collect();
    let packages = packages();
    assert!(packages.len() > 100, "{}", packages.len());
    for package in &packages {
        let name = package["name"].as_str().unwrap();
        let licence = package["license"].as_str().unwrap_or_else(|| panic!("{name}: no licence"));
        assert!(is_allowed(licence, &allowed), "{name}: {licence}");
        let source = package["source"].as_str();
        let is_ours = source.is_none() && name.starts_with("madang");
        assert!(is_ours || source == Some(REGISTRY), "{name} is from {source:?}");
    }
}

#[test]
fn a_second_version_of_a_crate_is_named_with_its_reason_and_each_reason_is_needed() {
    let rules = rules();
    let skipped = rules["bans"]["skip"].as_array().unwrap().iter();
    let skipped: BTreeSet<&str> = skipped
        .map(|it| {
            assert!(it["reason"].as_str().is_some_and(|why| !why.is_empty()), "{it}");
            it["crate"].as_str().unwrap()
        })
        .collect();
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages() {
        let text = |key: &str| package[key].as_str().unwrap().to_owned();
        versions.entry(text("name")).or_default().push(text("version"));
    }
    let is_skipped = |name: &str, version: &str| {
        skipped.iter().any(|it| {
            let (crate_, start) = it.split_once('@').unwrap();
            crate_ == name && format!("{version}.").starts_with(&format!("{start}."))
        })
    };
    let mut found = 0;
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        let left = versions.iter().filter(|version| !is_skipped(name, version)).count();
        assert_eq!(left, 1, "{name} {versions:?}: name all but one in deny.toml, with the reason");
        found += versions.len() - 1;
    }
    assert_eq!(found, skipped.len(), "deny.toml names a version that nobody uses any more");
}

#[test]
fn licences_are_read_as_they_are_meant() {
    let allowed = BTreeSet::from(["MIT", "ISC"]);
    for good in ["MIT", "GPL-3.0/MIT", "GPL-3.0 OR (MIT AND ISC)", "MIT WITH x OR y"] {
        assert!(is_allowed(good, &allowed), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0"] {
        assert!(!is_allowed(bad, &allowed), "{bad}");
    }
}
