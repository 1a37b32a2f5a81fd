//! `make bench`: what the project's own claims about speed rest on.
//!
//! Everything is a ratio of two things measured in turn within one run on one machine, several
//! rounds each, medians reported with their range. Prints Markdown. With `--update FILE` each part
//! replaces its marked block in that file, and the rounds behind its figures go to
//! `results/NAME.json` beside it.
#![forbid(unsafe_code)]

mod cluster;
mod components;
mod delays;
mod document;
mod generator;
mod lab;
mod likes;
mod near;
mod posts;
mod profiles;
mod schedules;
mod serving;
mod starts;
mod stats;
mod store;
mod tools;

use std::path::PathBuf;

/// A part of the page: its name, which is that of its block and of its file, and what measures it.
type Part = (&'static str, fn() -> anyhow::Result<String>);

const PARTS: [Part; 23] = [
    ("serving", serving::cached_against_nginx),
    ("settings", serving::settings_off),
    ("footprint", serving::footprint),
    ("connections", serving::connections),
    ("profiles", profiles::dist_against_release),
    ("store", store::group_commit),
    ("near", near::near),
    ("schedules", schedules::limit),
    ("posts", posts::posts),
    ("likes", likes::likes),
    ("cluster", cluster::cluster),
    ("cluster_likes", cluster::likes),
    ("galera", cluster::galera),
    ("load", generator::against_k6),
    ("memory", generator::memory),
    ("delays", delays::delays),
    ("hashing", generator::hashing),
    ("starts", starts::lag),
    ("users", components::users),
    ("lab", lab::cost),
    ("guard", components::guard),
    ("cache", components::cache),
    ("path", components::path),
];

fn main() -> anyhow::Result<()> {
    let mut update: Option<PathBuf> = None;
    let mut only = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--update" => update = args.next().map(PathBuf::from),
            part => only.push(part.to_owned()),
        }
    }
    let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(&name.as_str())) {
        anyhow::bail!("no part `{unknown}`: there are {}", names.join(" "));
    }
    let heading = tools::heading()?;
    for (name, measure) in PARTS {
        if !only.is_empty() && !only.iter().any(|wanted| wanted == name) {
            continue;
        }
        eprintln!("bench: {name}");
        let text = measure()?;
        let figures = stats::taken();
        if text.is_empty() {
            eprintln!("bench: {name} cannot be measured here: what it needs is not installed");
            continue;
        }
        println!("{text}");
        if let Some(file) = &update {
            document::write(file, name, &heading, &text, &figures)?;
        }
    }
    Ok(())
}
