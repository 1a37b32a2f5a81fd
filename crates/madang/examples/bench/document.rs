//! The page of figures: each part has a block in it, and a file with the rounds behind its figures.

use crate::stats::Figure;
use anyhow::Context as _;
use std::path::Path;

/// Replaces the block of a part, and writes its file.
pub fn write(
    page: &Path,
    name: &str,
    heading: &str,
    text: &str,
    figures: &[Figure],
) -> anyhow::Result<()> {
    let old = std::fs::read_to_string(page).with_context(|| page.display().to_string())?;
    let (begin, end) = (format!("<!-- begin: {name} -->\n"), format!("<!-- end: {name} -->\n"));
    let missing = || format!("no block `{name}` in {}", page.display());
    let (above, rest) = old.split_once(&begin).with_context(missing)?;
    let (_, below) = rest.split_once(&end).with_context(missing)?;
    let command = format!("`scripts/bench {name}`, {heading}");
    let rounds = format!("The rounds: [{name}.json](results/{name}.json).");
    let block = format!("{}\n\n{command}\n{rounds}\n", text.trim_end());
    std::fs::write(page, format!("{above}{begin}{block}{end}{below}"))?;

    let dir = page.parent().unwrap_or(Path::new(".")).join("results");
    std::fs::create_dir_all(&dir)?;
    let raw = serde_json::json!({ "measured": command, "figures": figures });
    let raw = serde_json::to_string_pretty(&raw)? + "\n";
    Ok(std::fs::write(dir.join(format!("{name}.json")), raw)?)
}
