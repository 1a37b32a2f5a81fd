//! `madang up`: nodes, their database and a balancer on this machine, until told to stop.
//!
//! Every server runs under a supervisor of `madang-stack`, so nothing is left when this process is
//! killed, except the temporary directory. A thread for each server starts it again when it ends
//! ([`kept`]). Ctrl-C stops the nodes first, while nginx and the database still work for them.

mod cache;
mod databases;
mod directory;
mod front;
mod kept;
mod node;
mod plan;
mod report;
mod restart;
mod stopping;

use crate::exit::ExitReason;
use crate::settings::usage;
use crate::{import, seed};
use anyhow::Context as _;
use databases::Databases;
use directory::RunDirectory;
pub use directory::random_hex;
use kept::{Kept, Means};
use madang_service::app::App;
use madang_service::store::copy;
use madang_service::store::{DirLock, FILE};
use madang_stack::Supervisor;
use node::Node;
use plan::{Choices, DatabaseKind, Plan};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;
use stopping::Stopping;

/// Arguments of `madang up`.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
For trying out, testing and comparing, not for production: all servers share one machine. They
listen on free ports of 127.0.0.1 and come from the Debian packages mariadb-server, nginx-light
and, for --cache, valkey-server or redis-server, for --tls, openssl, for galera galera-4,
mariadb-backup and socat. A server that ends is started again at its address. When this process
ends, even by `kill -9`, all servers end with it.

Settings reach every node as with `madang serve`: madang.toml < MADANG_… variables < --set.
This command sets data.dir, server.listen, server.metrics_listen, database.url, database.replicas
and, with --cache, cache.url, guard.url and likes.url; the last two name a server that evicts
nothing and keeps all on disk.
Behind nginx it also sets server.trusted_proxies and server.drain_delay, unless --set names them.
Nodes on one MariaDB share a token key; without accounts.token_key one is made in the directory.
With --dir the data stay, and the next start with the same directory continues with them.

--json prints one line once all is ready, with the addresses and the nodes' process ids:
  {\"url\": …, \"nodes\": [{\"url\": …, \"metrics\": …, \"pid\": …}], \"database\": …,
   \"replicas\": […], \"cache\": …, \"counts\": …, \"nginx\": …, \"dir\": …,
   \"processes\": [{\"name\": …, \"pid\": …}]}
A node that was started again keeps its addresses and has another process id.

Examples:
  madang up --demo                           one node with sample data, in a temporary directory
  madang up --nodes 2 --from madang-data     the data of a directory, copied, on two nodes
  madang up --nodes 2                        two nodes on one MariaDB, behind nginx
  madang up --nodes 2 --profile stock        the same behind nginx as Debian configures it
  madang up --nodes 1 --balance nginx --tls  HTTPS and HTTP/2 with a self-signed certificate
  madang up --nodes 3 --dir shop --set log.level=debug
                                             data and logs stay in ./shop
  madang up --nodes 2 --replicas 1           reads are also answered from a replica
  madang up --nodes 2 --database galera:3    three database servers, of which one may fail
  madang up --nodes 2 --cache valkey         nodes use each other's finished answers
  madang up --nodes 2 --cache valkey --set likes.write=stream
                                             likes through a stream in Valkey
  madang up --nodes 2 --cache cluster        the same with a cluster of three cache servers
  madang up restart --dir shop               restart the nodes one by one

Ctrl-C, SIGTERM or SIGHUP stops the nodes, then nginx, then the database, and removes a temporary
directory. A second one stops all of them at once.")]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    choices: Choices,
    /// Print one line of JSON on stdout instead of the table
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Restart the nodes of a running `madang up` one by one, each once the one before is ready
    Restart(restart::Args),
}

/// Starts servers and keeps them running, or restarts the nodes of another such process.
pub fn run(args: Args) -> anyhow::Result<ExitReason> {
    if let Some(Action::Restart(args)) = args.action {
        return restart::run(&args);
    }
    let plan = Plan::new(args.choices)?;
    plan.check_packages()?;
    let stopping = Arc::new(Stopping::default());
    stopping.watch_signals()?;
    let begun = Instant::now();
    let place = RunDirectory::new(plan.choices.dir.as_deref())?;
    let _lock = DirLock::take(&place.dir)?;
    let _servers = place.without_servers(&stopping)?;
    let means = Arc::new(Means { supervisor: Supervisor::this_program(["supervise"]), stopping });
    let mut stack = Stack::default();
    let started = stack.start(&plan, &place.dir, &means);
    let ended = match started {
        Ok(addresses) => {
            let control =
                restart::Control::listen(&place.dir, &stack.nodes, plan.front.as_ref(), &means)?;
            let keepers = stack.keep(&means)?;
            report::ready(&addresses, &stack, begun.elapsed(), args.json)?;
            means.stopping.wait();
            stack.stop(&means);
            drop(control);
            for keeper in keepers {
                // One that panicked has said so.
                let _ = keeper.join();
            }
            if means.stopping.hurries() { ExitReason::Interrupted } else { ExitReason::Done }
        }
        // Whoever stopped it knows why it did not start.
        Err(_) if means.stopping.is_asked() => {
            stack.stop(&means);
            ExitReason::Interrupted
        }
        Err(error) => {
            stack.stop(&means);
            place.remove()?;
            return Err(error);
        }
    };
    place.remove()?;
    Ok(ended)
}

/// All servers, in the order in which they start.
#[derive(Default)]
struct Stack {
    databases: Vec<Arc<Kept>>,
    nodes: Vec<Arc<Kept>>,
    front: Option<Arc<Kept>>,
}

struct Addresses {
    /// Of the balancer, or without one of the first node, or without any of the database.
    url: String,
    database: String,
    replicas: Vec<String>,
    cache: Option<String>,
    counts: Option<String>,
    /// Counters of the balancer.
    nginx: Option<String>,
    nodes: Vec<node::Addresses>,
    dir: PathBuf,
}

impl Stack {
    fn start(&mut self, plan: &Plan, dir: &Path, means: &Arc<Means>) -> anyhow::Result<Addresses> {
        let databases = Databases::start(plan, dir, means, &mut self.databases)?;
        let cache = cache::start(plan, dir, means, &mut self.databases)?;
        let shared = plan.shared_settings(&databases, cache.as_ref(), dir)?;
        let (cache, counts) = cache.map(|urls| (urls.cache, urls.counts)).unzip();
        if let Some(from) = &plan.choices.from {
            fill_from(from, plan, &databases, dir, &shared)
                .with_context(|| format!("cannot use the data of {}", from.display()))?;
        }
        if plan.choices.demo {
            fill_demo(&Node::new(1, plan, &shared, dir)?)
                .context("cannot store the sample data")?;
        }
        let mut nodes = Vec::new();
        for number in 1..=plan.nodes {
            let node = Node::new(number, plan, &shared, dir)?;
            nodes.push(node.addresses.clone());
            let name = format!("node-{number}");
            let kept = Arc::new(Kept::new(name, node.log.clone(), node));
            // Before it is ready: what fails from here on has to stop it, too.
            self.nodes.push(Arc::clone(&kept));
            kept.start(means)?;
        }
        let Databases { url: database, replicas } = databases;
        let mut url = nodes.first().map_or_else(|| database.clone(), |node| node.url.clone());
        let mut nginx = None;
        if let Some(balance) = &plan.front {
            let (front, log) = front::start(balance, &nodes, dir, means)?;
            (url, nginx) = (front.server.url(), front.server.status_url());
            self.front = Some(Arc::new(Kept::new("nginx".to_owned(), log, front)));
        }
        let dir = dir.to_owned();
        Ok(Addresses { url, database, replicas, cache, counts, nginx, nodes, dir })
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Kept>> {
        self.front.iter().chain(&self.nodes).chain(&self.databases)
    }

    fn keep(&self, means: &Arc<Means>) -> anyhow::Result<Vec<JoinHandle<()>>> {
        self.all().map(|kept| Ok(Kept::keep(kept, means)?)).collect()
    }

    /// Nodes drain at the same time, then nginx ends, then replicas and their primary.
    fn stop(&self, means: &Arc<Means>) {
        std::thread::scope(|scope| {
            for node in &self.nodes {
                scope.spawn(|| node.stop(means));
            }
        });
        for kept in self.front.iter().chain(self.databases.iter().rev()) {
            kept.stop(means);
        }
    }
}

/// What `madang copy` does, or a copy of the file, before any node serves. Data that are there already stay.
fn fill_from(
    from: &Path,
    plan: &Plan,
    to: &Databases,
    dir: &Path,
    shared: &[(String, String)],
) -> anyhow::Result<()> {
    let _from = DirLock::take(from)?;
    if plan.database != DatabaseKind::Sqlite {
        let settings = crate::copy::settings(plan.choices.config.clone(), from)?;
        if let Some(copying) = copy::begin(&settings, &to.url)? {
            copying.run(|_| ())?;
        }
        return Ok(());
    }
    let node = Node::new(1, plan, shared, dir)?;
    let dir = &node.settings.data_dir;
    let _lock = DirLock::take(dir)?;
    if !dir.join(FILE).exists() {
        // With what a server that was killed has left beside it.
        for name in [FILE.to_owned(), format!("{FILE}-wal")] {
            if from.join(&name).exists() {
                std::fs::copy(from.join(&name), dir.join(&name))?;
            }
        }
    }
    Ok(())
}

/// Whether these flags can be used together, before anything is started.
pub fn check(flags: &[String]) -> anyhow::Result<()> {
    planned(flags).map(drop)
}

/// For a stack with these flags whose database can be filled once and copied as files: a name that stacks have in
/// common whose files are alike, and flags for one that has nothing else. No node starts on it, since the first one would
/// note there how it writes likes. A group of servers cannot be copied so.
pub fn layout(flags: &[String]) -> anyhow::Result<Option<(String, Vec<String>)>> {
    let plan = planned(flags)?;
    let replicas = plan.choices.replicas;
    let flags = ["--nodes=0", "--database=mariadb", "--balance=off"].map(str::to_owned);
    let flags = flags.into_iter().chain([format!("--replicas={replicas}")]).collect();
    let is_alone = plan.database == DatabaseKind::Mariadb;
    Ok(is_alone.then(|| (format!("mariadb-{replicas}"), flags)))
}

fn planned(flags: &[String]) -> anyhow::Result<Plan> {
    #[derive(clap::Parser)]
    #[command(no_binary_name = true)]
    struct Flags {
        #[command(flatten)]
        choices: Choices,
    }
    let flags = <Flags as clap::Parser>::try_parse_from(flags);
    Plan::new(flags.map_err(|error| usage(error.render().to_string()))?.choices)
}

/// What `serve --demo` does, before any node serves.
fn fill_demo(node: &Node) -> anyhow::Result<()> {
    let settings = &node.settings;
    let _lock = DirLock::take(&settings.data_dir)?;
    let app = App::open(settings)?;
    import::fill_demo(&app)?;
    seed::fill_demo(&app, settings)
}
