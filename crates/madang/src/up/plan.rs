//! The plan of a stack: flags with defaults filled in and conflicts rejected.

use super::cache::Urls;
use super::databases::Databases;
use super::directory::random_hex;
use super::front;
use crate::settings::{SettingsArgs, usage};
use anyhow::{Context as _, anyhow};
use madang_service::config::{Key, Origin, Settings};
use madang_service::store::FILE;
use madang_stack::nginx::{self, Profile};
use madang_stack::{CpuBudget, Error, mariadb, redis};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Settings that this command sets itself.
const OWN: [&str; 8] = [
    "data.dir", "server.listen", "server.metrics_listen", "database.url", "database.replicas",
    "cache.url", "guard.url", "likes.url",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatabaseKind {
    /// A file in the data directory of the only node.
    Sqlite,
    /// A MariaDB server that all nodes share.
    Mariadb,
    /// A Galera cluster of this many MariaDB servers.
    Galera(u16),
}

impl DatabaseKind {
    fn is_shared(self) -> bool {
        self != Self::Sqlite
    }
}

fn database_kind(text: &str) -> anyhow::Result<DatabaseKind> {
    let servers = |count: &str| count.parse().ok().filter(|count| (2..=7).contains(count));
    match text {
        "sqlite" => Ok(DatabaseKind::Sqlite),
        "mariadb" => Ok(DatabaseKind::Mariadb),
        "galera" => Ok(DatabaseKind::Galera(3)),
        _ => text
            .strip_prefix("galera:")
            .and_then(servers)
            .map(DatabaseKind::Galera)
            .context("expected sqlite, mariadb, galera or galera:N with 2 to 7 servers"),
    }
}

fn node_budget(text: &str) -> anyhow::Result<CpuBudget> {
    let cores = text.parse().map_err(|_| anyhow!("expected a number of cores"))?;
    Ok(CpuBudget::fixed(cores)?)
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Balance {
    /// nginx on an address of its own, in front of the nodes
    Nginx,
    /// Nothing: clients choose a node
    Off,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheKind {
    /// Valkey, or Redis where that is installed: bodies of one node serve the others
    Valkey,
    /// Three such servers as a cluster
    Cluster,
    /// Nothing: each node has a cache of its own
    Off,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum ProfileName {
    /// deploy/nginx/tuned.conf
    Tuned,
    /// deploy/nginx/stock.conf: nginx as Debian configures it
    Stock,
}

/// The flags.
#[derive(clap::Args, Debug)]
pub(crate) struct Choices {
    /// Number of nodes, 0 to 16; 0 starts the other servers alone [default: 2 with mariadb, 1 with sqlite]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=16))]
    nodes: Option<u16>,
    /// Store of the nodes: sqlite (a file of the only node), mariadb (a server for all), galera:N (a
    /// cluster of N servers) [default: mariadb with several nodes or replicas, otherwise sqlite]
    #[arg(long, value_name = "KIND", value_parser = database_kind)]
    database: Option<DatabaseKind>,
    /// Number of read-only replicas of the MariaDB, 0 to 8
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=8))]
    pub replicas: u16,
    /// Cache that the nodes share; cache.mode is then local+remote unless --set names another
    #[arg(long, value_name = "KIND", value_enum, default_value = "off")]
    pub cache: CacheKind,
    /// CPU time each node may use, in cores, such as 0.5 [default: no limit]
    #[arg(long, value_name = "CORES", value_parser = node_budget)]
    pub node_cpus: Option<CpuBudget>,
    /// Balancer in front of the nodes [default: nginx with several nodes or --tls, otherwise off]
    #[arg(long, value_name = "KIND", value_enum)]
    balance: Option<Balance>,
    /// Configuration of nginx
    #[arg(long, value_name = "NAME", value_enum, default_value = "tuned")]
    profile: ProfileName,
    /// Worker processes of nginx; a machine with one CPU has 1 [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: Option<u16>,
    /// HTTPS at nginx, with a self-signed certificate
    #[arg(long)]
    tls: bool,
    /// Directory for data and logs, created if missing [default: a temporary one, removed at the end]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Fill an empty store first, as `madang serve --demo` does
    #[arg(long)]
    pub demo: bool,
    /// Fill an empty store with a copy of this data directory, which nobody may be serving
    #[arg(long, value_name = "DIR", conflicts_with = "demo")]
    pub from: Option<PathBuf>,
    /// Configuration file of the nodes [default: madang.toml, if it exists]
    #[arg(long, value_name = "FILE", env = "MADANG_CONFIG")]
    pub config: Option<PathBuf>,
    /// Value of one setting of every node; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Plan of the balancer.
#[derive(Debug)]
pub(crate) struct FrontPlan {
    pub profile: Profile,
    pub workers: Option<u16>,
    pub tls: bool,
}

/// The flags, and what follows from them.
#[derive(Debug)]
pub(crate) struct Plan {
    pub choices: Choices,
    pub nodes: u16,
    pub database: DatabaseKind,
    pub front: Option<FrontPlan>,
}

impl Plan {
    pub(crate) fn new(choices: Choices) -> anyhow::Result<Self> {
        let Choices { nodes, database, replicas, cache, balance, workers, tls, .. } = choices;
        if let Some(from) = choices.from.as_ref().filter(|from| !from.join(FILE).is_file()) {
            let from = from.display();
            return Err(usage(format!("--from {from}: the directory holds no {FILE}")));
        }
        let is_shared =
            nodes.is_some_and(|nodes| nodes > 1) || replicas > 0 || cache != CacheKind::Off;
        let fitting = if is_shared { DatabaseKind::Mariadb } else { DatabaseKind::Sqlite };
        let database = database.unwrap_or(fitting);
        let nodes = nodes.unwrap_or(if database.is_shared() { 2 } else { 1 });
        let is_file = database == DatabaseKind::Sqlite;
        let is_galera = matches!(database, DatabaseKind::Galera(_));
        for (is_conflict, reason) in [
            (
                replicas > 0 && is_galera,
                "--replicas: they follow one server; use --database mariadb",
            ),
            (
                nodes == 0 && (tls || balance == Some(Balance::Nginx)),
                "--balance nginx: without nodes nginx has nothing to stand before",
            ),
            (
                is_file && nodes == 0,
                "--nodes 0: without nodes there is nothing to start; name a --database, such as mariadb",
            ),
            (
                is_file && nodes > 1,
                "--database sqlite: several nodes cannot share a file, which one process owns; use --database mariadb or --nodes 1",
            ),
            (is_file && replicas > 0, "--replicas: a file has no replicas; use --database mariadb"),
            (
                is_file && cache != CacheKind::Off,
                "--cache: a node with a file of its own shares no bodies; use --database mariadb",
            ),
            (
                tls && balance == Some(Balance::Off),
                "--tls: nginx provides it; leave out --balance off",
            ),
        ] {
            if is_conflict {
                return Err(usage(reason));
            }
        }
        let fitting = if nodes > 1 || tls { Balance::Nginx } else { Balance::Off };
        let is_balanced = balance.unwrap_or(fitting) == Balance::Nginx;
        let profile = match choices.profile {
            ProfileName::Tuned => Profile::Tuned,
            ProfileName::Stock => Profile::Stock,
        };
        let front = is_balanced.then_some(FrontPlan { profile, workers, tls });
        for pair in &choices.set {
            let name = pair.split('=').next().unwrap_or_default().trim();
            if OWN.contains(&name) {
                return Err(usage(format!("--set {pair}: `madang up` sets {name} itself")));
            }
        }
        let plan = Self { choices, nodes, database, front };
        // Detects wrong settings before anything is started.
        let placeholder = "mysql://user:password@127.0.0.1:1/madang".to_owned();
        let replicas = vec![placeholder.clone(); usize::from(replicas)];
        let databases = Databases { url: placeholder, replicas };
        let redis = || "redis://127.0.0.1:1".to_owned();
        let cache = (cache != CacheKind::Off).then(|| Urls { cache: redis(), counts: redis() });
        plan.resolve(Path::new("."), &plan.cluster_settings(&databases, cache.as_ref()))?;
        Ok(plan)
    }

    /// Checks that all needed programs are installed; the error names all missing packages.
    pub(crate) fn check_packages(&self) -> anyhow::Result<()> {
        let mut needed = Vec::new();
        if let DatabaseKind::Galera(_) = self.database {
            needed.push(mariadb::galera_installed());
        } else if self.database == DatabaseKind::Mariadb {
            needed.push(mariadb::installed());
        }
        if self.choices.cache != CacheKind::Off {
            needed.push(redis::installed());
        }
        if let Some(front) = &self.front {
            needed.push(nginx::installed());
            if front.tls {
                needed.push(front::openssl_installed());
            }
        }
        let missing: Vec<&str> = needed
            .into_iter()
            .filter_map(|found| match found {
                Err(Error::NotInstalled { package, .. }) => Some(package),
                _ => None,
            })
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let packages = missing.join(" ");
        Err(anyhow!("Debian packages that are needed are missing; run: apt-get install {packages}"))
    }

    /// The effective settings of a node with this data directory.
    pub(crate) fn resolve(
        &self,
        data: &Path,
        own: &[(String, String)],
    ) -> anyhow::Result<Settings> {
        let mut sources = self.arguments(data).sources()?;
        for (name, value) in own.iter().filter(|(name, _)| !self.names(name)) {
            sources.set(name, value, Origin::Flag("madang up".to_owned()))?;
        }
        Ok(sources.resolve()?)
    }

    /// Flags of `madang serve`.
    fn arguments(&self, data: &Path) -> SettingsArgs {
        let (config, set) = (self.choices.config.clone(), self.choices.set.clone());
        SettingsArgs { data: Some(data.to_owned()), config, set }
    }

    /// Settings common to all nodes: addresses of databases, token key, settings for a balancer. Passed in
    /// the environment, because other users can see flags.
    pub(crate) fn shared_settings(
        &self,
        databases: &Databases,
        cache: Option<&Urls>,
        dir: &Path,
    ) -> anyhow::Result<Vec<(String, String)>> {
        let mut all = self.cluster_settings(databases, cache);
        if self.database.is_shared() && !self.has_token_key()? {
            all.push(("accounts.token_key".to_owned(), token_key(&dir.join("token.key"))?));
        }
        Ok(all)
    }

    fn cluster_settings(
        &self,
        databases: &Databases,
        cache: Option<&Urls>,
    ) -> Vec<(String, String)> {
        let mut all = Vec::new();
        let mut set = |name: &str, value: &str| all.push((name.to_owned(), value.to_owned()));
        match self.database {
            // Overrides a database in the user's file or variables.
            DatabaseKind::Sqlite => set("database.url", ""),
            DatabaseKind::Mariadb => set("database.url", &databases.url),
            DatabaseKind::Galera(_) => {
                set("database.url", &databases.url);
                // The cluster may stall this long when a server has died.
                set("cluster.wait", "15s");
            }
        }
        if !databases.replicas.is_empty() {
            set("database.replicas", &databases.replicas.join(","));
        }
        if let Some(url) = cache {
            set("cache.url", &url.cache);
            set("guard.url", &url.counts);
            set("likes.url", &url.counts);
            set("cache.mode", "local+remote");
        }
        if self.front.is_some() {
            set("server.trusted_proxies", "127.0.0.1/32");
            set("server.drain_delay", "1s");
        }
        all
    }

    /// Whether the command line sets this setting, which overrides the environment.
    fn names(&self, name: &str) -> bool {
        self.choices
            .set
            .iter()
            .any(|pair| pair.split('=').next().is_some_and(|key| key.trim() == name))
    }

    fn has_token_key(&self) -> anyhow::Result<bool> {
        let sources = self.arguments(Path::new(".")).sources()?;
        let key = Key::find("accounts.token_key");
        Ok(key.is_some_and(|key| !sources.effective(key).0.is_empty()))
    }
}

/// The key in a file, created if missing: users remain logged in when the directory is used again.
fn token_key(path: &Path) -> anyhow::Result<String> {
    let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let key = match new {
        Ok(mut file) => {
            let key = random_hex(32)?;
            writeln!(file, "{key}").map(|()| key)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            std::fs::read_to_string(path).map(|key| key.trim().to_owned())
        }
        Err(error) => Err(error),
    };
    key.with_context(|| format!("cannot use the key {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(flags: &str) -> anyhow::Result<Plan> {
        crate::up::planned(flags.split_whitespace())
    }

    #[test]
    fn what_is_left_open_fits_what_is_said() {
        for (flags, nodes, database, balanced) in [
            ("", 1, DatabaseKind::Sqlite, false),
            ("--nodes 3", 3, DatabaseKind::Mariadb, true),
            ("--database galera", 2, DatabaseKind::Galera(3), true),
            ("--database galera:5", 2, DatabaseKind::Galera(5), true),
            ("--database mariadb", 2, DatabaseKind::Mariadb, true),
            ("--nodes 2 --balance off", 2, DatabaseKind::Mariadb, false),
            ("--tls", 1, DatabaseKind::Sqlite, true),
            ("--balance nginx", 1, DatabaseKind::Sqlite, true),
        ] {
            let plan = plan(flags).unwrap();
            let found = (plan.nodes, plan.database, plan.front.is_some());
            assert_eq!(found, (nodes, database, balanced), "{flags}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_reason() {
        for (flags, reason) in [
            ("--nodes 2 --database sqlite", "several nodes cannot share a file"),
            ("--replicas 1 --database sqlite", "a file has no replicas"),
            ("--replicas 1 --database galera", "they follow one server"),
            ("--nodes 17", "17 is not in 0..=16"),
            ("--nodes 0", "without nodes there is nothing to start"),
            ("--nodes 0 --database mariadb --balance nginx", "without nodes nginx"),
            ("--tls --balance off", "nginx provides it"),
            ("--set data.dir=/x", "sets data.dir itself"),
            ("--set database.url=mysql://x", "sets database.url itself"),
            ("--set cache.mode=nonsense", "cache.mode"),
        ] {
            let error = format!("{:#}", plan(flags).unwrap_err());
            assert!(error.contains(reason), "{flags}: {error}");
        }
    }

    #[test]
    fn nginx_has_a_worker_for_each_cpu_unless_a_number_is_given() {
        let workers = |flags| plan(flags).unwrap().front.and_then(|front| front.workers);
        assert_eq!(workers("--nodes 2"), None);
        assert_eq!(workers("--nodes 2 --workers 1"), Some(1));
        assert!(plan("--nodes 2 --workers 0").is_err());
    }

    #[test]
    fn a_key_is_made_once_and_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token.key");
        let key = token_key(&path).unwrap();
        assert_eq!((token_key(&path).unwrap(), key.len()), (key, 64));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
