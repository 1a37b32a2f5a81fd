//! `make bench`: what the project's own claims about speed rest on.
//!
//! Everything is a ratio of two things measured in turn within one run on one machine, several
//! rounds each, medians reported with their range. Prints Markdown; with `--update FILE` it replaces
//! the block between the two markers in that file.
#![forbid(unsafe_code)]

mod generator;
mod lab;
mod likes;
mod posts;
mod schedules;
mod serving;
mod starts;
mod stats;
mod store;
mod tools;

use std::fmt::Write as _;
use std::path::PathBuf;

const BEGIN: &str = "<!-- bench: begin -->";
const END: &str = "<!-- bench: end -->";

fn main() -> anyhow::Result<()> {
    let mut update = None;
    let mut only = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--update" => update = args.next().map(PathBuf::from),
            section => only.push(section.to_owned()),
        }
    }
    let wanted = |name: &str| only.is_empty() || only.iter().any(|o| o == name);
    let mut report = tools::heading()?;
    if wanted("serving") {
        report += &serving::cached_against_nginx()?;
        report += &serving::settings_off()?;
    }
    if wanted("footprint") {
        report += &serving::footprint()?;
    }
    if wanted("connections") {
        report += &serving::connections()?;
    }
    if wanted("store") {
        report += &store::group_commit()?;
    }
    if wanted("schedules") {
        report += &schedules::limit()?;
    }
    if wanted("posts") {
        report += &posts::posts()?;
    }
    if wanted("likes") {
        report += &likes::likes()?;
    }
    if wanted("load") {
        report += &generator::against_k6()?;
        report += &generator::hashing()?;
    }
    if wanted("starts") {
        report += &starts::lag()?;
    }
    if wanted("lab") {
        report += &lab::cost()?;
    }
    println!("{report}");
    if let Some(path) = update {
        let text = std::fs::read_to_string(&path)?;
        let (head, rest) = text
            .split_once(BEGIN)
            .ok_or_else(|| anyhow::anyhow!("no {BEGIN} in {}", path.display()))?;
        let (_, tail) = rest
            .split_once(END)
            .ok_or_else(|| anyhow::anyhow!("no {END} in {}", path.display()))?;
        let mut out = String::new();
        write!(out, "{head}{BEGIN}\n{report}{END}{tail}")?;
        std::fs::write(&path, out)?;
    }
    Ok(())
}
