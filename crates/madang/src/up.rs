//! `madang up`: runs nodes, their database and a balancer on this machine until stopped.
//!
//! Every server runs under a supervisor of `madang-stack`, so nothing but the temporary directory is
//! left when this process is killed. A thread for each server restarts it when it ends ([`managed`]).
//! Ctrl-C stops the nodes first, while nginx and the database still work for them.

mod cache;
mod databases;
mod directory;
mod front;
mod managed;
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
pub(crate) use directory::random_hex;
use madang_service::app::App;
use madang_service::store::copy;
use madang_service::store::{DirLock, FILE};
use madang_stack::Supervisor;
use managed::{Context, Managed};
use node::Node;
use plan::{Choices, DatabaseKind, Plan};
use std::ffi::OsString;
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
pub(crate) struct Args {
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

/// Starts servers and keeps them running, or restarts the nodes of another `madang up`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitReason> {
    if let Some(Action::Restart(args)) = args.action {
        return restart::run(&args);
    }
    let plan = Plan::new(args.choices)?;
    plan.check_packages()?;
    let stopping = Arc::new(Stopping::default());
    stopping.watch_signals()?;
    let begun = Instant::now();
    let directory = RunDirectory::new(plan.choices.dir.as_deref())?;
    let _lock = DirLock::take(&directory.path)?;
    let _servers = directory.lock_servers(&stopping)?;
    let supervisor = Supervisor::this_program(["supervise"]);
    let dir = directory.path.clone();
    let context = Arc::new(Context { supervisor, stopping, plan, dir });
    let mut stack = Stack::default();
    let started = stack.start(&context);
    let reason = match started {
        Ok(running) => {
            let control = restart::Control::listen(&stack.nodes, &context)?;
            let keepers = stack.keep(&context)?;
            report::ready(&running, &stack, begun.elapsed(), args.json)?;
            context.stopping.wait();
            stack.stop(&context);
            drop(control);
            for keeper in keepers {
                // A panic has been printed.
                let _ = keeper.join();
            }
            if context.stopping.is_urgent() { ExitReason::Interrupted } else { ExitReason::Done }
        }
        // The error is a consequence of the stop.
        Err(_) if context.stopping.is_requested() => {
            stack.stop(&context);
            ExitReason::Interrupted
        }
        Err(error) => {
            stack.stop(&context);
            directory.remove()?;
            return Err(error);
        }
    };
    directory.remove()?;
    Ok(reason)
}

/// All servers, in the order in which they start.
#[derive(Default)]
struct Stack {
    databases: Vec<Arc<Managed>>,
    nodes: Vec<Arc<Managed>>,
    front: Option<Arc<Managed>>,
}

/// Running servers, in the form of `--json`.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Running {
    /// Address of the balancer, else of the first node, else of the database.
    pub url: String,
    pub nodes: Vec<RunningNode>,
    /// Addresses of a cluster are separated by commas.
    pub database: String,
    pub replicas: Vec<String>,
    pub cache: Option<String>,
    pub counts: Option<String>,
    /// Counters of the balancer.
    pub nginx: Option<String>,
    pub dir: PathBuf,
    pub processes: Vec<RunningProcess>,
}

#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct RunningNode {
    pub url: String,
    pub metrics: String,
    pub pid: Option<u32>,
}

#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct RunningProcess {
    pub name: String,
    pub pid: Option<u32>,
}

impl Stack {
    fn start(&mut self, context: &Context) -> anyhow::Result<Running> {
        let plan = &context.plan;
        let databases = Databases::start(context, &mut self.databases)?;
        let cache = cache::start(context, &mut self.databases)?;
        let shared = plan.shared_settings(&databases, cache.as_ref(), &context.dir)?;
        let (cache, counts) = cache.map(|urls| (urls.cache, urls.counts)).unzip();
        if let Some(from) = &plan.choices.from {
            fill_from(from, &databases, &shared, context)
                .with_context(|| format!("cannot use the data of {}", from.display()))?;
        }
        if plan.choices.demo {
            fill_demo(&Node::new(1, &shared, context)?).context("cannot store the sample data")?;
        }
        let mut nodes = Vec::new();
        for number in 1..=plan.nodes {
            let node = Node::new(number, &shared, context)?;
            nodes.push(node.addresses.clone());
            let name = format!("node-{number}");
            let managed = Managed::new(name, node.log.clone(), node);
            // Before it is ready, so that it is stopped after later errors.
            self.nodes.push(Arc::clone(&managed));
            managed.start(context)?;
        }
        let Databases { url: database, replicas } = databases;
        let mut url = nodes.first().map_or_else(|| database.clone(), |node| node.url.clone());
        let mut nginx = None;
        if let Some(balance) = &plan.front {
            let (front, log) = front::start(balance, &nodes, context)?;
            (url, nginx) = (front.server.url(), front.server.status_url());
            self.front = Some(Managed::new("nginx".to_owned(), log, front));
        }
        let nodes = nodes.into_iter().zip(&self.nodes).map(|(at, node)| RunningNode {
            url: at.url,
            metrics: at.metrics,
            pid: node.pid(),
        });
        let nodes = nodes.collect();
        let processes =
            self.all().map(|one| RunningProcess { name: one.name.clone(), pid: one.pid() });
        let (dir, processes) = (context.dir.clone(), processes.collect());
        Ok(Running { url, nodes, database, replicas, cache, counts, nginx, dir, processes })
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Managed>> {
        self.front.iter().chain(&self.nodes).chain(&self.databases)
    }

    fn keep(&self, context: &Arc<Context>) -> anyhow::Result<Vec<JoinHandle<()>>> {
        self.all().map(|one| Ok(Managed::keep(one, context)?)).collect()
    }

    /// Stops the nodes at the same time, then nginx, then replicas and their primary.
    fn stop(&self, context: &Context) {
        std::thread::scope(|scope| {
            for node in &self.nodes {
                scope.spawn(|| node.stop(context));
            }
        });
        for one in self.front.iter().chain(self.databases.iter().rev()) {
            one.stop(context);
        }
    }
}

/// Copies data to the database or to the only node's file, before any node serves. Existing data remain.
fn fill_from(
    from: &Path,
    to: &Databases,
    shared: &[(String, String)],
    context: &Context,
) -> anyhow::Result<()> {
    let plan = &context.plan;
    let _from = DirLock::take(from)?;
    if plan.database != DatabaseKind::Sqlite {
        let settings = crate::copy::settings(plan.choices.config.clone(), from)?;
        if let Some(copying) = copy::begin(&settings, &to.url)? {
            copying.run(|_| ())?;
        }
        return Ok(());
    }
    let node = Node::new(1, shared, context)?;
    let dir = &node.settings.data_dir;
    let _lock = DirLock::take(dir)?;
    if !dir.join(FILE).exists() {
        // With the write-ahead log that a killed server leaves.
        for name in [FILE.to_owned(), format!("{FILE}-wal")] {
            if from.join(&name).exists() {
                std::fs::copy(from.join(&name), dir.join(&name))?;
            }
        }
    }
    Ok(())
}

/// Checks flags without starting anything.
pub(crate) fn check(flags: &[String]) -> anyhow::Result<()> {
    planned(flags).map(drop)
}

/// Name and flags of a stack of only the database, if that can be filled once and copied as files. Stacks with equal
/// files share the name. It has no node, since the first one would record how it writes likes. A Galera cluster
/// cannot be copied like this.
pub(crate) fn layout(flags: &[String]) -> anyhow::Result<Option<(String, Vec<String>)>> {
    let plan = planned(flags)?;
    let replicas = plan.choices.replicas;
    let flags = ["--nodes=0", "--database=mariadb", "--balance=off"].map(str::to_owned);
    let flags = flags.into_iter().chain([format!("--replicas={replicas}")]).collect();
    let is_alone = plan.database == DatabaseKind::Mariadb;
    Ok(is_alone.then(|| (format!("mariadb-{replicas}"), flags)))
}

fn planned(flags: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> anyhow::Result<Plan> {
    #[derive(clap::Parser)]
    #[command(no_binary_name = true)]
    struct Flags {
        #[command(flatten)]
        choices: Choices,
    }
    let flags = <Flags as clap::Parser>::try_parse_from(flags);
    Plan::new(flags.map_err(|error| usage(error.render().to_string()))?.choices)
}

/// Adds sample data like `serve --demo`, before any node serves.
fn fill_demo(node: &Node) -> anyhow::Result<()> {
    let settings = &node.settings;
    let _lock = DirLock::take(&settings.data_dir)?;
    let app = App::open(settings)?;
    import::fill_demo(&app)?;
    seed::fill_demo(&app, settings)
}
