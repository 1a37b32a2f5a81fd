//! ARCHITECTURE.md and the decision records name files and symbols of this repository that exist.

use crate::repository::{files, workspace};
use std::collections::BTreeSet;
use std::path::Path;

/// Bounds of ARCHITECTURE.md: a page, not a book, in lines of ordinary length.
const MOST_LINES: usize = 350;
const LONGEST_PROSE_LINE: usize = 120;
const FEWEST_BEHAVIOURS: usize = 30;

fn architecture() -> String {
    std::fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap()
}

/// ARCHITECTURE.md and every decision record, by path.
fn pages() -> Vec<(String, String)> {
    let records = files(&workspace().join("docs/decisions"));
    assert!(records.len() > 50, "{records:?}");
    let paths = records.into_iter().chain([workspace().join("ARCHITECTURE.md")]);
    let read = |path: &Path| {
        let name = path.strip_prefix(workspace()).unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    paths.map(|path| read(&path)).collect()
}

/// The page's text and code spans in turn, without fenced blocks and with single spaces.
fn spans(page: &str) -> Vec<String> {
    let outside = page.split("```").step_by(2).collect::<Vec<_>>().join(" ");
    let words = outside.split_whitespace().collect::<Vec<_>>().join(" ");
    words.split('`').map(str::to_owned).collect()
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether Rust code defines an item of this name.
fn defines(code: &str, symbol: &str) -> bool {
    const KINDS: [&str; 7] = ["fn", "struct", "enum", "trait", "const", "static", "type"];
    code.lines().filter(|line| !line.trim_start().starts_with("//")).any(|line| {
        KINDS.iter().any(|kind| {
            let item = format!("{kind} {symbol}");
            line.match_indices(&item).any(|(at, _)| {
                !line[..at].ends_with(is_name) && !line[at + item.len()..].starts_with(is_name)
            })
        })
    })
}

/// What is wrong with saying that the symbol is in the file.
fn fault(symbol: &str, file: &str) -> Option<String> {
    match std::fs::read_to_string(workspace().join(file)) {
        Err(error) => Some(format!("{file}: {error}")),
        Ok(code) if !defines(&code, symbol) => Some(format!("{file} does not define {symbol}")),
        Ok(_) => None,
    }
}

fn code_cell(cell: &str) -> &str {
    let cell = cell.trim();
    let inside = cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`'));
    inside.unwrap_or_else(|| panic!("{cell} is not one code span"))
}

#[test]
fn the_table_of_behaviours_names_files_and_the_symbols_they_define() {
    let text = architecture();
    let (_, section) = text.split_once("\n## Where is …\n").expect("the section with the table");
    let section = section.split("\n## ").next().unwrap();
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with('|')).skip(2).collect();
    assert!(rows.len() >= FEWEST_BEHAVIOURS, "{} rows", rows.len());
    let (mut behaviours, mut faults) = (BTreeSet::new(), Vec::new());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let [behaviour, file, symbol] = cells[..] else { panic!("not three cells: {row}") };
        assert!(behaviours.insert(behaviour.trim()), "twice: {row}");
        faults.extend(fault(code_cell(symbol), code_cell(file)));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn walk_throughs_name_functions_that_their_files_define() {
    let spans = spans(&architecture());
    let (mut count, mut faults) = (0, Vec::new());
    for at in (1..spans.len()).step_by(2) {
        // `symbol` in `file`
        if let [symbol, between, file] = &spans[at..spans.len().min(at + 3)]
            && between == " in "
            && file.ends_with(".rs")
        {
            count += 1;
            faults.extend(fault(symbol.rsplit("::").next().unwrap(), file));
        }
    }
    assert!(count >= 60, "{count} functions are named");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_path_in_the_architecture_and_the_records_exists() {
    let directories: Vec<String> = std::fs::read_dir(workspace())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let (mut count, mut missing) = (0, Vec::new());
    for (page, text) in pages() {
        for span in spans(&text).iter().skip(1).step_by(2) {
            let Some((first, _)) = span.split_once('/') else { continue };
            let is_path = directories.iter().any(|directory| directory == first);
            // A path that begins elsewhere would be ambiguous, and is not found either.
            if is_path || (span.ends_with(".rs") && !span.contains(' ')) {
                count += 1;
                if !workspace().join(span).exists() {
                    missing.push(format!("{page}: {span}"));
                }
            }
        }
    }
    assert!(count > 150, "only {count} paths were found");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn the_architecture_is_short() {
    let text = architecture();
    let lines = text.lines().count();
    assert!(lines <= MOST_LINES, "ARCHITECTURE.md has {lines} lines");
    let prose = text.lines().filter(|line| !line.starts_with('|'));
    let long: Vec<&str> = prose.filter(|line| line.chars().count() > LONGEST_PROSE_LINE).collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn every_decision_is_indexed_once_and_has_its_three_parts() {
    let index = std::fs::read_to_string(workspace().join("docs/decisions/README.md")).unwrap();
    for (page, text) in pages() {
        let Some(name) = page.strip_prefix("docs/decisions/").filter(|it| *it != "README.md")
        else {
            continue;
        };
        let number = &name[..4];
        assert!(number.chars().all(|c| c.is_ascii_digit()), "{page}");
        let title = text.lines().next().unwrap();
        let title = title.strip_prefix(&format!("# {number}. ")).expect(&page);
        let row = format!("| [{number}]({name}) | {title} |\n");
        assert_eq!(index.matches(&row).count(), 1, "{page}: the index has not once: {row}");
        let parts: Vec<&str> = text.lines().filter(|line| line.starts_with("## ")).collect();
        assert_eq!(parts, ["## Context", "## Decision", "## Consequences"], "{page}");
    }
}

#[test]
fn unsafe_code_is_where_the_architecture_says() {
    let text = architecture();
    let mut found = 0;
    for path in files(&workspace().join("crates")) {
        let name = path.strip_prefix(workspace()).unwrap().to_str().unwrap().to_owned();
        if !name.contains("/src/") || !name.ends_with(".rs") {
            continue;
        }
        let code = std::fs::read_to_string(&path).unwrap();
        if code.contains("unsafe {") || code.contains("unsafe fn") || code.contains("unsafe impl") {
            found += 1;
            assert!(text.contains(&format!("`{name}`")), "ARCHITECTURE.md does not name {name}");
        }
    }
    assert_eq!(found, 5, "ARCHITECTURE.md counts them");
}

#[test]
fn a_definition_is_told_from_a_use_and_from_a_longer_name() {
    assert!(defines("    pub(super) async fn run(&self) {", "run"));
    assert!(defines("const MOST: usize = 1;", "MOST") && defines("struct A<T>(T);", "A"));
    assert!(!defines("fn run_all() {}", "run") && !defines("run();", "run"));
    assert!(!defines("// fn run() is gone", "run") && !defines("often run()", "run"));
}
