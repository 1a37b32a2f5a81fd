//! The libraries by themselves: what their own examples measure, as they print it.

use crate::tools::supervisor;
use anyhow::{Context as _, ensure};
use madang_stack::redis::Redis;
use std::path::Path;
use std::process::Command;

/// Runs an example that was built beside this one, and gives what it printed, as a block.
fn printed(title: &str, runs: &[(&str, &[&str])]) -> anyhow::Result<String> {
    let own = std::env::current_exe()?;
    let dir = own.parent().context("a directory of examples")?;
    let mut out = format!("### {title}\n");
    for (example, args) in runs {
        let output = Command::new(dir.join(example)).args(*args).output();
        let output = output.with_context(|| format!("the example {example}"))?;
        ensure!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let command = [&[*example], *args].concat().join(" ");
        out += &format!("\nExample `{command}`:\n\n```text\n{}\n```\n", text.trim_end());
    }
    Ok(out)
}

/// Refusing log-ins, and hashing passwords beside everything else.
pub fn guard() -> anyhow::Result<String> {
    printed(
        "Refused log-ins and hashing",
        &[("guard_bench", &[]), ("hash_bench", &["argon2id", "1", "4"])],
    )
}

/// What a virtual user costs, by the way it is built.
pub fn users() -> anyhow::Result<String> {
    let ways = ["coroutines", "threads", "contexts", "compile"];
    let args = ways.map(|way| [way, "1000"]);
    printed("Virtual users", &args.each_ref().map(|args| ("virtual_users", args.as_slice())))
}

/// Hits and hit ratios.
pub fn cache() -> anyhow::Result<String> {
    let dir = tempfile::tempdir()?;
    let server = Redis::start(&supervisor()?, dir.path())?;
    let url = server.url();
    let text = printed("Cache", &[("cache_bench", &[&url])])?;
    Ok(text.replace(&url, "redis://127.0.0.1"))
}

/// Reading, simplifying and writing the longest bundled trail.
pub fn path() -> anyhow::Result<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/tracks");
    let mut longest: Option<(u64, String)> = None;
    for file in std::fs::read_dir(&dir)?.flatten() {
        let path = file.path();
        if path.extension().is_some_and(|kind| kind == "gpx") {
            let found = (file.metadata()?.len(), path.display().to_string());
            longest = longest.max(Some(found));
        }
    }
    let (_, file) = longest.with_context(|| format!("no trail in {}", dir.display()))?;
    let text = printed("Paths", &[("path_bench", &[&file])])?;
    // The page is the same wherever the repository lies.
    Ok(text.replace(&format!("{}/", dir.display()), "data/tracks/"))
}
