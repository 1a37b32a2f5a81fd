//! What `madang up` prints.

use super::{Addresses, Stack};
use serde_json::json;
use std::fmt::Arguments;
use std::io::{ErrorKind, Write as _};
use std::time::Duration;

/// A line on stderr, which somebody may have closed.
pub fn tell(line: Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "madang up: {line}");
}

/// Prints the addresses once all is ready. That nobody reads them is no reason to stop.
pub fn ready(
    addresses: &Addresses,
    stack: &Stack,
    took: Duration,
    as_json: bool,
) -> anyhow::Result<()> {
    let text = if as_json { line(addresses, stack) } else { table(addresses, stack, took) };
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn line(addresses: &Addresses, stack: &Stack) -> String {
    let nodes = addresses.nodes.iter().zip(&stack.nodes);
    let nodes =
        nodes.map(|(at, kept)| json!({ "url": at.url, "metrics": at.metrics, "pid": kept.pid() }));
    let processes = stack.all().map(|kept| json!({ "name": kept.name, "pid": kept.pid() }));
    let whole = json!({
        "url": addresses.url,
        "nodes": nodes.collect::<Vec<_>>(),
        "database": addresses.database,
        "replicas": addresses.replicas,
        "cache": addresses.cache,
        "counts": addresses.counts,
        "nginx": addresses.nginx,
        "dir": addresses.dir,
        "processes": processes.collect::<Vec<_>>(),
    });
    format!("{whole}\n")
}

fn table(addresses: &Addresses, stack: &Stack, took: Duration) -> String {
    let mut rows = Vec::new();
    if let Some(front) = &stack.front {
        rows.push([front.name.clone(), addresses.url.clone(), front.log.display().to_string()]);
        rows.extend(addresses.nginx.clone().map(|status| [String::new(), status, String::new()]));
    }
    for (node, kept) in addresses.nodes.iter().zip(&stack.nodes) {
        rows.push([kept.name.clone(), node.url.clone(), kept.log.display().to_string()]);
        rows.push([String::new(), node.metrics.clone() + "/metrics", String::new()]);
    }
    // Of a cluster each server has a row, as it has a log.
    let cache = addresses.cache.iter().flat_map(|urls| urls.split(','));
    let replicas = addresses.replicas.iter().map(String::as_str);
    let urls = addresses.database.split(',').chain(replicas);
    let urls = urls.chain(cache).chain(addresses.counts.as_deref());
    for (at, url) in urls.enumerate() {
        let kept = stack.databases.get(at);
        let name = kept.map_or("sqlite", |kept| &kept.name).to_owned();
        let log = kept.map(|kept| kept.log.display().to_string()).unwrap_or_default();
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
