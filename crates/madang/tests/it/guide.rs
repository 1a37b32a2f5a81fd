//! docs/guide: every command works, page after page; both languages have the same ones; what it names is there.

use crate::harness::{Madang, Setup};
use crate::pages::{blocks, every_command_works, root};
use std::collections::BTreeSet;

const LANGUAGES: [&str; 2] = ["en", "ko"];

/// The pages of a language, in their order.
fn pages(language: &str) -> Vec<String> {
    let dir = format!("docs/guide/{language}");
    let entries = std::fs::read_dir(root().join(&dir)).unwrap().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| format!("{dir}/{}", entry.file_name().to_string_lossy())).collect();
    names.sort();
    assert!(names.len() >= 6, "{names:?}");
    names
}

fn text(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).unwrap()
}

#[test]
fn every_command_of_the_english_guide_works() {
    every_command_works(&pages("en"));
}

#[test]
fn every_command_of_the_korean_guide_works() {
    every_command_works(&pages("ko"));
}

/// Fenced blocks of settings.
fn settings(page: &str) -> Vec<String> {
    let fences = text(page).split("```toml\n").skip(1).map(str::to_owned).collect::<Vec<_>>();
    fences.iter().map(|rest| rest.split("\n```").next().unwrap().to_owned()).collect()
}

/// Without what is said beside it.
fn bare(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("  #").next().unwrap_or_default().trim_end());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn both_languages_have_the_same_pages_commands_and_settings() {
    let [english, korean] = LANGUAGES.map(pages);
    assert_eq!(english.len(), korean.len());
    for (english, korean) in english.iter().zip(&korean) {
        assert_eq!(english.replace("/en/", "/ko/"), *korean);
        let commands = |page: &str| -> Vec<_> {
            blocks(&text(page)).into_iter().flatten().map(|typed| bare(&typed.command)).collect()
        };
        assert_eq!(commands(english), commands(korean), "{korean}");
        let bare = |page: &str| settings(page).iter().map(|block| bare(block)).collect::<Vec<_>>();
        assert_eq!(bare(english), bare(korean), "{korean}");
    }
}

#[test]
fn the_settings_of_the_guide_are_taken_together() {
    for page in LANGUAGES.iter().flat_map(|language| pages(language)) {
        for block in settings(&page) {
            let shown = Madang::new(["config", "--changed"]).file("madang.toml", &block).succeeds();
            assert!(shown.stdout.contains("# from madang.toml:"), "{page}: {block}");
        }
    }
}

/// What stands between backticks outside of fences.
fn names(page: &str) -> Vec<String> {
    let text = text(page);
    let outside = text.split("```").step_by(2);
    outside.flat_map(|part| part.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[test]
fn every_setting_of_the_guide_exists_and_every_section_is_in_it() {
    let printed: toml::Table = Madang::new(["config"]).succeeds().stdout.parse().unwrap();
    let exists = |name: &str| {
        let mut value = Some(&toml::Value::Table(printed.clone())).cloned();
        for part in name.split('.').filter(|part| *part != "*") {
            value = value.and_then(|value| value.get(part).cloned());
        }
        value.is_some()
    };
    let sections: BTreeSet<_> = printed
        .iter()
        .filter(|(_, value)| value.is_table())
        .map(|(name, _)| name.clone())
        .collect();
    for language in LANGUAGES {
        let mut named = BTreeSet::new();
        for page in pages(language) {
            for name in names(&page) {
                // A value may follow.
                let name = name.split([' ', '=']).next().unwrap_or_default();
                let Some((section, _)) = name.split_once('.') else { continue };
                if sections.contains(section) {
                    assert!(exists(name), "{page}: no such setting: {name}");
                    named.insert(section.to_owned());
                }
            }
        }
        assert_eq!(named, sections, "sections of settings without a word in {language}");
    }
}

#[test]
fn every_metric_of_the_guide_exists() {
    let server = Setup::new().start();
    server.get("/v1/tracks/1");
    let shown = server.metrics_page();
    // Those of several nodes are what alerts and the dashboard ask for, which has a test of its own.
    let asked = ["deploy/prometheus/alerts.yml", "deploy/grafana/madang.json"].map(text).concat();
    let mut count = 0;
    for page in LANGUAGES.iter().flat_map(|language| pages(language)) {
        for name in names(&page).into_iter().filter(|name| name.starts_with("madang_")) {
            let name = name.split('{').next().unwrap();
            count += 1;
            assert!(shown.contains(name) || asked.contains(name), "{page}: no metric {name}");
        }
    }
    assert!(count > 10, "{count}");
}
