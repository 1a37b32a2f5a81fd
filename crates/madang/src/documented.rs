//! Tests of the documents: every `madang …` command is valid, and every link has a target.

use crate::command_line;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Markdown files of the repository, by path.
fn documents() -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![root()];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(&dir).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if name.starts_with('.') || ["target", "results", "madang-data"].contains(&&*name) {
                continue;
            }
            if path.is_dir() {
                left.push(path);
            } else if name.ends_with(".md") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.insert(path.strip_prefix(root()).unwrap().to_owned(), text);
            }
        }
    }
    found
}

/// Commands of fenced shell blocks, each as one line: without `$ ` and comments, with continued lines joined.
fn commands(text: &str) -> Vec<String> {
    let (mut found, mut open, mut whole) = (Vec::new(), None, String::new());
    for line in text.lines() {
        let line = line.trim();
        if let Some(language) = line.strip_prefix("```") {
            open = if open.is_some() { None } else { Some(language.to_owned()) };
            continue;
        }
        let is_session = match open.as_deref() {
            Some("console") => true,
            Some("sh" | "bash" | "") => false,
            _ => continue,
        };
        let text =
            if whole.is_empty() && is_session { line.strip_prefix("$ ") } else { Some(line) };
        let Some(text) = text else { continue };
        whole += text.strip_suffix('\\').unwrap_or(text);
        if !text.ends_with('\\') {
            found.push(std::mem::take(&mut whole));
        }
    }
    found
}

/// Words of each simple command of a line, split as by a shell.
fn words(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut now, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' | '"' => {
                let inside: String = letters.by_ref().take_while(|c| *c != letter).collect();
                word.get_or_insert_default().push_str(&inside);
            }
            '#' if word.is_none() => break,
            ' ' => now.extend(word.take()),
            '|' | ';' | '&' | '(' | ')' | '>' | '<' => {
                now.extend(word.take());
                all.push(std::mem::take(&mut now));
            }
            letter => word.get_or_insert_default().push(letter),
        }
    }
    now.extend(word);
    all.push(now);
    all
}

#[test]
fn every_command_in_the_documents_is_one_that_the_program_takes() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (file, text) in documents() {
        for line in commands(&text) {
            for command in words(&line) {
                let Some(at) = command.iter().position(|word| word == "madang") else { continue };
                // `cargo install … madang`, `systemctl status madang`, `mariadb-dump --databases madang`
                let others = ["cargo", "systemctl", "journalctl", "mariadb-dump"];
                if command.iter().take(at).any(|word| others.contains(&word.as_str())) {
                    continue;
                }
                count += 1;
                let words = command[at..].iter().map(std::ffi::OsString::from);
                let parsed =
                    command_line().try_get_matches_from(crate::load::normalize_args(words));
                if let Err(error) = parsed
                    && error.use_stderr()
                {
                    wrong.push(format!("{}: {line}: {error}", file.display()));
                }
            }
        }
    }
    assert!(count > 40, "only {count} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_line_is_cut_as_a_shell_would() {
    let cut = words("A=1 madang load 'a b.js' -e \"X=1 2\" | jq . # not this");
    assert_eq!(cut[0], ["A=1", "madang", "load", "a b.js", "-e", "X=1 2"]);
    assert_eq!(cut[1], ["jq", "."]);
    assert_eq!(commands("```sh\na \\\n  b\n```\n```console\n$ c\nd\n```"), ["a b", "c"]);
}

/// Lines outside of fenced blocks.
fn prose(text: &str) -> Vec<&str> {
    let mut in_fence = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence {
            lines.push(line);
        }
    }
    lines
}

/// Targets of links, `](…)`.
fn links(text: &str) -> Vec<String> {
    let text = prose(text).join("\n");
    let parts = text.split("](").skip(1);
    parts.filter_map(|part| Some(part.split_once(')')?.0.to_owned())).collect()
}

/// Anchors of a page's headings, as on GitHub: lower case, letters, digits, `-` and `_`.
fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for heading in prose(text).into_iter().filter(|line| line.starts_with('#')) {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let times = found.iter().filter(|other| **other == anchor).count();
        found.push(if times == 0 { anchor } else { format!("{anchor}-{times}") });
    }
    found
}

#[test]
fn every_link_of_the_documents_leads_somewhere() {
    let documents = documents();
    assert!(documents.len() > 15, "{:?}", documents.keys());
    let mut dead = Vec::new();
    for (path, text) in &documents {
        for link in links(text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let dir = path.parent().unwrap();
            let target = if file.is_empty() { path.clone() } else { dir.join(file) };
            let Ok(whole) = root().join(&target).canonicalize() else {
                dead.push(format!("{}: {link}: no such file", path.display()));
                continue;
            };
            let inside = whole.strip_prefix(root()).expect("a link out of the repository");
            if anchor.is_empty() {
                continue;
            }
            let there =
                documents.get(inside).is_some_and(|it| anchors(it).iter().any(|a| a == anchor));
            if !there {
                dead.push(format!("{}: {link}: no such heading", path.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

/// Blocks written by scripts have a begin and an end mark.
#[test]
fn marked_blocks_are_whole() {
    for (path, text) in documents() {
        let marks = |word: &str| -> Vec<String> {
            let start = format!("<!-- {word}: ");
            let lines = text
                .lines()
                .filter_map(|line| line.trim().strip_prefix(&start)?.strip_suffix(" -->"));
            lines.map(str::to_owned).collect()
        };
        let (begins, ends) = (marks("begin"), marks("end"));
        assert_eq!(begins, ends, "{}", path.display());
    }
}

/// Only `make bench` and `make experiments` write tables of figures.
#[test]
fn tables_of_figures_stand_in_blocks_that_a_command_writes() {
    let documents = documents();
    let page = &documents[Path::new("docs/PERFORMANCE.md")];
    let mut is_inside = false;
    for line in page.lines() {
        is_inside |= line.starts_with("<!-- begin: ");
        is_inside &= !line.starts_with("<!-- end: ");
        assert!(is_inside || !line.starts_with('|'), "a table outside the blocks: {line}");
    }
    for (path, text) in documents {
        let is_experiment = path.starts_with("experiments")
            && path.components().count() == 3
            && path.ends_with("README.md");
        let has = text.contains("<!-- begin: results -->");
        assert_eq!(has, is_experiment, "{}", path.display());
    }
}

#[test]
fn help_texts_fit_a_terminal_of_100_columns() {
    fn lines(command: &clap::Command) -> Vec<String> {
        let own = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let own = own.lines().map(str::to_owned).collect::<Vec<_>>();
        own.into_iter().chain(command.get_subcommands().flat_map(lines)).collect()
    }
    let mut all = lines(&command_line());
    assert!(all.len() > 300, "{} lines", all.len());
    // clap breaks a longer one and leaves a line of a word or two behind.
    all.retain(|line| line.chars().count() > 100);
    assert!(all.is_empty(), "{all:#?}");
}
