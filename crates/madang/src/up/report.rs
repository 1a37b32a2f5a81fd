//! Output of `madang up`.

use super::{Running, Stack};
use std::fmt::Arguments;
use std::io::{ErrorKind, Write as _};
use std::time::Duration;

pub(crate) fn log(line: Arguments<'_>) {
    crate::terminal::message(format_args!("madang up: {line}"));
}

/// Prints the addresses of ready servers. A closed pipe is no error.
pub(crate) fn ready(
    running: &Running,
    stack: &Stack,
    took: Duration,
    as_json: bool,
) -> anyhow::Result<()> {
    let text =
        if as_json { serde_json::to_string(running)? + "\n" } else { table(running, stack, took) };
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn table(running: &Running, stack: &Stack, took: Duration) -> String {
    let mut rows = Vec::new();
    if let Some(front) = &stack.front {
        rows.push([front.name.clone(), running.url.clone(), front.log.display().to_string()]);
        rows.extend(running.nginx.clone().map(|status| [String::new(), status, String::new()]));
    }
    for (node, managed) in running.nodes.iter().zip(&stack.nodes) {
        rows.push([managed.name.clone(), node.url.clone(), managed.log.display().to_string()]);
        rows.push([String::new(), node.metrics.clone() + "/metrics", String::new()]);
    }
    // Each server of a cluster has a row, as it has a log.
    let cache = running.cache.iter().flat_map(|urls| urls.split(','));
    let replicas = running.replicas.iter().map(String::as_str);
    let urls = running.database.split(',').chain(replicas);
    let urls = urls.chain(cache).chain(running.counts.as_deref());
    for (at, url) in urls.enumerate() {
        let managed = stack.databases.get(at);
        let name = managed.map_or("sqlite", |managed| &managed.name).to_owned();
        let log = managed.map(|managed| managed.log.display().to_string()).unwrap_or_default();
        rows.push([name, url.to_owned(), log]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let mut text = String::new();
    for [name, address, log] in &rows {
        text += format!("{name:first$}  {address:second$}  {log}").trim_end();
        text.push('\n');
    }
    text + &format!("ready in {:.1} s; Ctrl-C stops all of it\n", took.as_secs_f64())
}
