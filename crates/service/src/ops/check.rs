//! Checks of what a node needs besides its store, before it starts.

use self::Finding::{Right, Wrong};
use crate::config::{LikesWrite, Settings};
use madang_valkey::{Error, Purpose, Server, Url, redis};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::time::Duration;

/// Result of one check.
#[derive(Debug)]
pub enum Finding {
    /// Nothing prevents the start.
    Right(String),
    /// It prevents the start.
    Wrong(String),
}

/// Checks the directory, the addresses and the servers besides the store.
///
/// # Errors
/// When an event loop cannot be made.
pub fn check(settings: &Settings) -> std::io::Result<Vec<Finding>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut found = vec![directory(settings)];
    for (key, address) in [
        ("server.listen", settings.server.listen),
        ("server.metrics_listen", settings.server.metrics_listen),
    ] {
        found.push(match TcpListener::bind(address) {
            Ok(_) => Right(format!("{key}: {address} is free")),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                Right(format!("{key}: {address} is taken, perhaps by a node that runs"))
            }
            Err(error) => Wrong(format!("{key}: {address}: {error}")),
        });
    }
    let uses_likes = matches!(settings.likes.write, LikesWrite::Stream | LikesWrite::Queue);
    let servers = [
        ("cache.url", &settings.cache.url, settings.cache.mode.is_remote(), false),
        ("guard.url", &settings.guard.url, true, false),
        ("likes.url", &settings.likes.url, uses_likes, settings.likes.write == LikesWrite::Stream),
    ];
    for (key, urls, is_used, is_kept) in servers {
        if is_used && !urls.is_empty() {
            found.push(match runtime.block_on(answers(urls, is_kept)) {
                Ok(()) => Right(format!("{key}: {urls:?} answers")),
                Err(error) => Wrong(format!("{key}: {urls:?}: {error}")),
            });
        }
    }
    Ok(found)
}

async fn answers(urls: &[Url], is_kept: bool) -> Result<(), Error> {
    let purpose = Purpose {
        name: "the server",
        answer: Duration::from_secs(3),
        when_full: "it needs room",
        is_kept,
    };
    // Any key: a cluster routes the command to the server of its key.
    let mut get = redis::cmd("GET");
    get.arg("madang:check");
    match Server::new(urls, purpose)?.check(&get).await {
        // A user without access to this key may still have all the rights it needs.
        Err(Error::Failed(error)) if error.code() == Some("NOPERM") => Ok(()),
        answer => answer,
    }
}

fn directory(settings: &Settings) -> Finding {
    let dir = &settings.data_dir;
    if !dir.exists() {
        return Right(format!("data.dir: {} is made at the first start", dir.display()));
    }
    let probe = dir.join(format!(".check-{}", std::process::id()));
    let written = std::fs::write(&probe, []);
    let _ = std::fs::remove_file(&probe);
    match written {
        Ok(()) => Right(format!("data.dir: {} can be written to", dir.display())),
        Err(error) => Wrong(format!("data.dir: {}: {error}", dir.display())),
    }
}
