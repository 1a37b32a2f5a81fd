//! The MariaDB of the nodes, and its replicas.

use super::directory::random_hex;
use super::managed::{Context, External, FIRST_PAUSE, Managed};
use super::plan::{DatabaseKind, Plan};
use crate::settings::usage;
use madang_stack::mariadb::{Account, Login, MariaDb, MariaDbSettings, Role};
use std::sync::Arc;
use std::time::Duration;

/// Name of the database, and of its owner.
const NAME: &str = "madang";
/// `server_id` of the primary; replicas count on from there.
const PRIMARY: u32 = 1;
/// Connections for each node, whose default limit is 48; its poller has a few more.
const CONNECTIONS_PER_NODE: u32 = 320;
/// Connections for people and replicas.
const MORE_CONNECTIONS: u32 = 40;
/// Pause before a cluster member is restarted. If it joins while the others are still removing it, they lose each
/// other and none of them serves; the removal takes about 3 s with the timeouts of [`MariaDb::galera`].
const MEMBER_PAUSE: Duration = Duration::from_secs(7);
/// Enough for trial data, small enough for several servers.
const BUFFER_POOL_MIB: u32 = 128;

/// Addresses of the store.
#[derive(Debug)]
pub(crate) struct Databases {
    pub url: String,
    pub replicas: Vec<String>,
}

impl Databases {
    /// Starts the servers of the plan, and adds each to `managed` once it runs.
    pub(crate) fn start(
        context: &Context,
        managed: &mut Vec<Arc<Managed>>,
    ) -> anyhow::Result<Self> {
        let plan = &context.plan;
        if plan.database == DatabaseKind::Sqlite {
            let file = context.dir.join("node-1/madang.db");
            return Ok(Self { url: format!("sqlite:{}", file.display()), replicas: Vec::new() });
        }
        if let DatabaseKind::Galera(servers) = plan.database {
            return Self::start_galera(servers, context, managed);
        }
        let data = context.dir.join("mariadb/data");
        let has_log = data.join("binlog.index").exists();
        if plan.choices.replicas > 0 && data.exists() && !has_log {
            let text = "--replicas: the MariaDB in this directory was created without replicas, so its \
                        log lacks what they would need; use another --dir";
            return Err(usage(text));
        }
        // An existing log is continued, or a replica would miss writes without it.
        let is_primary = plan.choices.replicas > 0 || has_log;
        let replication = login("replica")?;
        let mut settings = standalone(plan)?;
        if is_primary {
            let replication = replication.clone();
            settings.role = Role::Primary { server_id: PRIMARY, replication };
        }
        let mut start = |name: &str, settings: &MariaDbSettings| {
            // Private, because root has no password on the socket inside.
            let dir = context.create_dir(name, true)?;
            let server = MariaDb::with(&context.supervisor, &dir, settings)?;
            let (url, port) = (server.url(), server.port());
            let log = dir.join("mariadb.log");
            managed.push(Managed::new(name.to_owned(), log, external(server)));
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
        context: &Context,
        managed: &mut Vec<Arc<Managed>>,
    ) -> anyhow::Result<Self> {
        let dir = context.create_dir("galera", true)?;
        let settings = standalone(&context.plan)?;
        let servers = MariaDb::galera(&context.supervisor, &dir, servers, &settings)?;
        let urls: Vec<_> = servers.iter().map(MariaDb::url).collect();
        for (number, server) in (1..).zip(servers) {
            let log = dir.join(format!("{number}/mariadb.log"));
            managed.push(Managed::new(format!("galera-{number}"), log, external(server)));
        }
        Ok(Self { url: urls.join(","), replicas: Vec::new() })
    }
}

fn standalone(plan: &Plan) -> anyhow::Result<MariaDbSettings> {
    Ok(MariaDbSettings {
        buffer_pool_mib: BUFFER_POOL_MIB,
        max_connections: u32::from(plan.nodes) * CONNECTIONS_PER_NODE + MORE_CONNECTIONS,
        account: Some(Account { database: NAME.to_owned(), login: login(NAME)? }),
        role: Role::Alone,
    })
}

/// A login with a new password at each start.
fn login(user: &str) -> anyhow::Result<Login> {
    Ok(Login { user: user.to_owned(), password: random_hex(16)? })
}

fn external(server: MariaDb) -> External<MariaDb> {
    let pause = if server.is_member() { MEMBER_PAUSE } else { FIRST_PAUSE };
    External { server, restart: MariaDb::restart, pause }
}
