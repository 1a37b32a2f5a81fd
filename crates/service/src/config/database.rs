//! `database.*` and `cluster.*`: the store, and nodes that share one.

use super::keys::settings;
use super::value::{auto, duration, kind, optional, positive, size, time, up_to};
use std::time::Duration;

settings! {
    /// `database.*`: the store.
    #[derive(Clone, PartialEq)]
    pub struct DatabaseSettings {
        url: Option<String> = secret "database.url", "",
            optional("mysql://USER:PASSWORD@HOST:PORT/DATABASE, several separated by commas for a Galera cluster, or empty",
                database_url),
            "MariaDB database that holds the data, for several nodes; of a cluster the first server that can be used; empty = a file in the data directory";
        replicas: Vec<String> = secret "database.replicas", "",
            kind("URLs as database.url, separated by commas, or empty", replica_urls),
            "Replicas of database.url, for reads; one that is behind what a read needs, slow or away is passed over";
        max_connections: Option<usize> = "database.max_connections", "auto", auto(256),
            "Number of read connections to the store (file: auto = one per core, at least 2), or of all connections to MariaDB (auto = 48)";
        commit_group: usize = "database.commit_group", "256", up_to(10_000),
            "Maximum number of writes that share one commit; 1 = a commit for each write";
        queue: usize = "database.queue", "4096", up_to(1_000_000),
            "Maximum number of jobs waiting for the store; further ones are answered 503";
        log_limit: usize = "database.log_limit", "64MiB",
            kind("a size: 16MiB, 1GiB; at least 64KiB", log_limit),
            "Size of the write-ahead log at which reads and writes pause until it is copied into the database";
        /// Nodes that share the store.
        cluster: ClusterSettings;
    }
}

settings! {
    /// `cluster.*`: nodes that share a store.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ClusterSettings {
        delay: Duration = "cluster.delay", "25ms",
            kind("a duration: 0, 25ms, 40ms; at most 1s",
                |v| duration(v).filter(|delay| *delay <= Duration::from_secs(1))),
            "Time between the commit of a write and its answer when database.url is set, the same on all nodes; 0 = no wait, but every request waits for a query of its own (for machines that are suspended or migrated live)";
        poll: Duration = "cluster.poll", "8ms", kind("a duration: 8ms, 16ms", positive),
            "Time between two queries for what other nodes have written, while requests come; must be shorter than two thirds of cluster.delay";
        wait: Duration = "cluster.wait", "1s", time(),
            "Maximum time that a request waits for such a query; then 503";
    }
}

// The URL holds a password.
crate::opaque_debug!(DatabaseSettings);

/// Only the form is checked; the start reports whether the database can be reached.
fn database_url(value: &str) -> Option<String> {
    let is_url =
        |url: &str| url.trim().strip_prefix("mysql://").is_some_and(|rest| rest.contains('/'));
    value.split(',').all(is_url).then(|| value.to_owned())
}

fn replica_urls(value: &str) -> Option<Vec<String>> {
    let urls = value.split(',').map(str::trim).filter(|url| !url.is_empty());
    urls.map(database_url).collect()
}

fn log_limit(value: &str) -> Option<usize> {
    size(value).filter(|bytes| *bytes >= 64 << 10)
}
