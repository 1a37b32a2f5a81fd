//! The MariaDB of the nodes, and its replicas.

use super::directory::random_hex;
use super::kept::{Beside, FIRST_PAUSE, Kept, Means};
use super::plan::{DatabaseKind, Plan};
use crate::settings::usage;
use anyhow::Context as _;
use madang_stack::mariadb::{Account, Login, MariaDb, MariaDbSettings, Role};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Name of the database, and of its owner.
const NAME: &str = "madang";
/// `server_id` of the primary; replicas count on from there.
const PRIMARY: u32 = 1;
/// Connections for each node: its own limit is 48 unless it is set, and a few are its poller's.
const CONNECTIONS_PER_NODE: u32 = 320;
/// Connections for people and replicas.
const MORE_CONNECTIONS: u32 = 40;
/// Pause before a server of a cluster is started again. One that joins while the others are still leaving it out makes them
/// lose each other, and then none of them serves; they take about 3 s with the time-outs of [`MariaDb::galera`].
const MEMBER_PAUSE: Duration = Duration::from_secs(7);
/// Enough for the data of a try-out, little enough for a replica beside it.
const BUFFER_POOL_MIB: u32 = 128;

/// Addresses of the store.
#[derive(Debug)]
pub struct Databases {
    pub url: String,
    pub replicas: Vec<String>,
}

impl Databases {
    /// Starts what the plan asks for, and adds each server to `kept` once it runs.
    pub fn start(
        plan: &Plan,
        dir: &Path,
        means: &Means,
        kept: &mut Vec<Arc<Kept>>,
    ) -> anyhow::Result<Self> {
        if plan.database == DatabaseKind::Sqlite {
            let file = dir.join("node-1").join("madang.db");
            return Ok(Self { url: format!("sqlite:{}", file.display()), replicas: Vec::new() });
        }
        if let DatabaseKind::Galera(servers) = plan.database {
            return Self::start_galera(servers, plan, dir, means, kept);
        }
        let primary_dir = dir.join("mariadb");
        let data = primary_dir.join("data");
        let has_log = data.join("binlog.index").exists();
        if plan.choices.replicas > 0 && data.exists() && !has_log {
            let text = "--replicas: the MariaDB in this directory was created without replicas, so its \
                        log lacks what they would need; use another --dir";
            return Err(usage(text));
        }
        // A log that exists goes on, or a replica would miss what was written without it.
        let is_primary = plan.choices.replicas > 0 || has_log;
        let replication = login("replica")?;
        let mut settings = alone(plan)?;
        if is_primary {
            let replication = replication.clone();
            settings.role = Role::Primary { server_id: PRIMARY, replication };
        }
        let mut start = |name: &str, settings: &MariaDbSettings| {
            let dir = dir.join(name);
            // Root has no password on the socket inside.
            private(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
            let server = MariaDb::with(&means.supervisor, &dir, settings)?;
            let (url, port) = (server.url(), server.port());
            kept.push(Arc::new(Kept::new(
                name.to_owned(),
                dir.join("mariadb.log"),
                beside(server),
            )));
            anyhow::Ok((url, port))
        };
        let (url, primary_port) = start("mariadb", &settings)?;
        let mut replicas = Vec::new();
        for number in 1..=plan.choices.replicas {
            let (server_id, replication) = (PRIMARY + u32::from(number), replication.clone());
            settings.role = Role::Replica { server_id, primary_port, replication };
            replicas.push(start(&format!("replica-{number}"), &settings)?.0);
        }
        Ok(Self { url, replicas })
    }

    fn start_galera(
        servers: u16,
        plan: &Plan,
        dir: &Path,
        means: &Means,
        kept: &mut Vec<Arc<Kept>>,
    ) -> anyhow::Result<Self> {
        let dir = dir.join("galera");
        private(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let servers = MariaDb::galera(&means.supervisor, &dir, servers, &alone(plan)?)?;
        let urls: Vec<_> = servers.iter().map(MariaDb::url).collect();
        for (number, server) in (1..).zip(servers) {
            let log = dir.join(format!("{number}/mariadb.log"));
            kept.push(Arc::new(Kept::new(format!("galera-{number}"), log, beside(server))));
        }
        Ok(Self { url: urls.join(","), replicas: Vec::new() })
    }
}

fn alone(plan: &Plan) -> anyhow::Result<MariaDbSettings> {
    Ok(MariaDbSettings {
        buffer_pool_mib: BUFFER_POOL_MIB,
        max_connections: u32::from(plan.nodes) * CONNECTIONS_PER_NODE + MORE_CONNECTIONS,
        account: Some(Account { database: NAME.to_owned(), login: login(NAME)? }),
        role: Role::Alone,
    })
}

/// A new password at each start: nobody else needs to know it.
fn login(user: &str) -> anyhow::Result<Login> {
    Ok(Login { user: user.to_owned(), password: random_hex(16)? })
}

fn private(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

fn beside(server: MariaDb) -> Beside<MariaDb> {
    let pause = if server.is_member() { MEMBER_PAUSE } else { FIRST_PAUSE };
    Beside { server, restart: MariaDb::restart, pause }
}
