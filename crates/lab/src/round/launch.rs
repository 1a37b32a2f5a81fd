//! From a variant to something that answers.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use madang_stack::container::{self, ContainerError};
use madang_stack::http::{self, Url, UrlError};
use madang_stack::{Cgroup, CpuBudget, CpuList, Output, Patience, PortReservation, Process, Spec};

use crate::file::experiment::{Experiment, Target, Variant};
use crate::journal::record::{FailureKind, Warning};
use crate::judge::part::{self, StackPart};
use crate::observe::database::Addresses;
use crate::round::containers::{ContainerPlace, Containers};
use crate::round::host::{Host, HostError, Launch, Page, Ready, Said, Served};

/// A server that runs already answers a single request in this time, or would be no use.
const PROBE_TIME: Duration = Duration::from_secs(5);

/// A variant that is up.
pub(crate) struct Running {
    /// `None` for a `url`.
    pub process: Option<Arc<Process>>,
    /// Cgroups that hold all of its processes; empty if its process tree has them.
    pub cgroups: Vec<Cgroup>,
    /// What the script gets as `BASE_URL`: no slash at the end.
    pub base_url: String,
    /// Its Prometheus pages, one of each node.
    pub metrics: Vec<Url>,
    /// Its processes by their names, where it says them.
    pub processes: BTreeMap<String, Vec<u32>>,
    /// Where its data are, such as `sqlite:PATH`, if that is known.
    pub database: Option<String>,
    /// Databases beside it.
    pub databases: Addresses,
    /// Its CPU budget could not be applied.
    pub without_budget: bool,
}

/// Under which conditions a variant is started.
pub(crate) struct Conditions<'c> {
    pub containers: &'c Containers,
    pub data: &'c Path,
    /// Where the server's stderr goes.
    pub log: &'c Path,
    /// CPUs of its own, if it gets any.
    pub cpus: Option<&'c CpuList>,
    /// How long it may take to get ready.
    pub patience: Patience<'c>,
    /// `HOST:PORT` to listen on, when it has been there before.
    pub address: Option<&'c str>,
}

/// Why a variant did not come up.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error(transparent)]
    Host(#[from] HostError),
    /// Its process could not be started or did not get ready.
    #[error(transparent)]
    Process(#[from] madang_stack::Error),
    /// A container's image, or what the engine says about it.
    #[error(transparent)]
    Container(#[from] ContainerError),
    #[error("{what}")]
    Io { what: &'static str, source: io::Error },
    /// A server that should run already does not.
    #[error("nobody answers at {url}: a `url` variant has to be started beforehand")]
    Nobody { url: String, source: io::Error },
    /// Somebody else is there already.
    #[error(
        "something answers at {url} as if it were ready before the server is started: stop it, or let \
         the server listen at `{{port}}`, which is free in every round"
    )]
    Taken { url: String },
    /// What it calls its address is none.
    #[error("it became ready at no address: {0}")]
    Address(UrlError),
}

impl LaunchError {
    /// Whose failure it is: the server's, or that of what was to start it.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Process(_) | Self::Nobody { .. } | Self::Address(_) => FailureKind::Start,
            Self::Host(_) | Self::Container(_) | Self::Io { .. } | Self::Taken { .. } => {
                FailureKind::Machine
            }
        }
    }
}

/// Default readiness check: an answer with any status.
const ANY_ANSWER: &str = "http://127.0.0.1:{port}/";
/// Who takes longer to answer while nothing loads it would not be taken for the server at once, either.
const OCCUPIED_TIME: Duration = Duration::from_secs(2);

/// Finds out whether a server that should run already does: any answer will do.
pub(crate) fn probe(url: &str) -> Result<(), LaunchError> {
    let parsed = Url::parse(url).map_err(LaunchError::Address)?;
    let answer = http::get(&parsed, PROBE_TIME);
    answer.map(drop).map_err(|source| LaunchError::Nobody { url: url.to_owned(), source })
}

/// Starts a variant and waits until it is ready.
pub(crate) fn launch(
    experiment: &Experiment,
    variant: &Variant,
    host: &dyn Host,
    conditions: &Conditions<'_>,
) -> Result<Running, LaunchError> {
    let Conditions { containers, data, log, cpus, patience, address } = conditions;
    let port = match address.and_then(|address| address.rsplit_once(':')) {
        Some((_, port)) => port.to_owned(),
        None => free_port()?,
    };
    let directory = data.to_string_lossy();
    let fill = |text: &str| text.replace("{port}", &port).replace("{dir}", &directory);
    let database = variant.database.as_deref().map(fill);
    let databases = experiment.databases(variant).filled(&fill);
    let cgroups = || {
        let path = variant.cgroup.as_deref().map(fill);
        let found =
            path.map(|path| Cgroup::find(&path)).into_iter().collect::<io::Result<Vec<_>>>();
        found.map_err(|source| LaunchError::Io { what: "`cgroup`", source })
    };
    let page = variant.metrics.as_deref().map(fill);
    let page = page.map(|page| Url::parse(&page).map_err(LaunchError::Address)).transpose()?;
    let mut started = None;
    let mut budget = variant.cpus;
    let mut without_budget = false;
    let launch = match &variant.target {
        Target::Url(url) => {
            probe(url)?;
            return Ok(Running {
                process: None,
                cgroups: cgroups()?,
                base_url: url.clone(),
                metrics: page.into_iter().collect(),
                processes: BTreeMap::new(),
                database,
                databases,
                without_budget: false,
            });
        }
        Target::Serve(served) => {
            // Its nodes have the budget, each its own; the host gives it to them.
            let of_nodes = budget.take_if(|_| served.stack.is_some());
            without_budget = of_nodes.is_some_and(|budget| may_go_without(experiment, &budget));
            let without = without_budget.then(|| Served { node_cpus: None, ..served.clone() });
            host.serve(without.as_ref().unwrap_or(served), data, *address)?
        }
        Target::Command { argv, env, ready } => {
            let mut spec = Spec::new(fill(&argv[0])).args(argv[1..].iter().map(|arg| fill(arg)));
            for (name, value) in env {
                spec = spec.env(name, fill(value));
            }
            answering(spec.dir(&experiment.dir), ready.as_deref(), &fill, page)?
        }
        Target::Container(container) => {
            let place = ContainerPlace { port: &port, dir: &directory, cpus: *cpus };
            let start = containers.start(experiment, variant, container, place, &fill);
            let start = start.ok_or_else(|| HostError("its image was not prepared".to_owned()))?;
            let spec = start.spec.clone().dir(&experiment.dir);
            started = Some(start);
            answering(spec, container.ready.as_deref(), &fill, page)?
        }
    };
    // A forgotten server would be measured in place of the one that cannot listen there. What answers
    // anything else may be a proxy that waits for it.
    if address.is_none()
        && let Ready::Http { url, any, .. } = &launch.ready
        && http::get(url, OCCUPIED_TIME).is_ok_and(|answer| *any || answer.is_ready())
    {
        return Err(LaunchError::Taken { url: url.to_string() });
    }
    let log = || Output::File((*log).to_owned());
    let is_project = started.as_ref().is_some_and(|started| started.is_project);
    let stdout = match launch.ready {
        Ready::Http { .. } if !is_project => log(),
        Ready::Line(_) | Ready::Said(_) | Ready::Http { .. } => Output::Capture,
    };
    let mut spec = without_shell(launch.spec, host).stdout(stdout).stderr(log());
    // The client of an engine is not what is measured.
    if let (Some(cpus), None) = (cpus, &started) {
        spec = spec.cpus((*cpus).clone());
    }
    // The engine gives a container its own.
    if let (Some(budget), None) = (budget, &started) {
        without_budget = may_go_without(experiment, &budget);
        if !without_budget {
            spec = spec.budget(budget);
        }
    }
    let process = host.supervisor().spawn(&spec)?;
    if is_project {
        process.ready_line(container::UP_LINE, *patience)?;
    }
    let mut said = Said::default();
    let base_url = match launch.ready {
        Ready::Line(prefix) => process.ready_line(&prefix, *patience)?,
        Ready::Said(read) => {
            said = read(&process.ready_line("", *patience)?)?;
            said.base_url.clone()
        }
        Ready::Http { url, base_url, any } => {
            process.ready_http(&url, any, *patience)?;
            base_url
        }
    };
    Url::parse(&base_url).map_err(LaunchError::Address)?;
    let metrics = match launch.metrics {
        None => {
            let pages = said.metrics.iter().map(|page| Url::parse(page));
            pages.collect::<Result<Vec<_>, _>>().map_err(LaunchError::Address)?
        }
        Some(Page::Http(url)) => vec![url],
        Some(Page::Line { prefix, path }) => {
            let start = process.ready_line(&prefix, *patience)?;
            vec![Url::parse(&format!("{start}{path}")).map_err(LaunchError::Address)?]
        }
    };
    let databases = databases.or(&said.databases);
    let mut processes = part::groups(&said.processes);
    if let (Target::Serve(_), true) = (&variant.target, processes.is_empty()) {
        processes.insert(StackPart::Nodes.name().to_owned(), vec![process.pid()]);
    }
    let database = match &variant.target {
        Target::Serve(served) => host.database(served, data),
        _ => database,
    };
    let base_url = base_url.trim_end_matches('/').to_owned();
    let process = Some(Arc::new(process));
    // Those of containers are made when they start.
    let cgroups = match &started {
        Some(started) => containers.cgroups(started, *cpus, *patience)?,
        None => cgroups()?,
    };
    Ok(Running {
        process,
        cgroups,
        base_url,
        metrics,
        processes,
        database,
        databases,
        without_budget,
    })
}

/// Whether a budget cannot be applied here, and the experiment accepts that.
fn may_go_without(experiment: &Experiment, budget: &CpuBudget) -> bool {
    experiment.rounds.accept.contains(&Warning::NoBudget) && budget.probe().is_err()
}

fn free_port() -> Result<String, LaunchError> {
    // Freed before the command starts, as a program may not set SO_REUSEADDR.
    let reservation = PortReservation::new();
    let reservation =
        reservation.map_err(|source| LaunchError::Io { what: "no free port", source })?;
    Ok(reservation.port().to_string())
}

/// Without what the shell of the person who started the lab has set for server or generator.
pub(crate) fn without_shell(spec: Spec, host: &dyn Host) -> Spec {
    host.own_variables().iter().fold(spec, |spec, prefix| spec.env_remove_prefix(prefix))
}

/// A command whose server answers at an address: that of `ready`, or anything at `{port}`.
fn answering(
    spec: Spec,
    ready: Option<&str>,
    fill: &dyn Fn(&str) -> String,
    page: Option<Url>,
) -> Result<Launch, LaunchError> {
    let any = ready.is_none();
    let ready = fill(ready.unwrap_or(ANY_ANSWER));
    let url = Url::parse(&ready).map_err(LaunchError::Address)?;
    let base_url = origin(&ready).to_owned();
    let metrics = page.map(Page::Http);
    Ok(Launch { spec, ready: Ready::Http { url, base_url, any }, metrics })
}

/// `HOST:PORT` of a base URL.
pub(crate) fn address(base_url: &str) -> &str {
    base_url.split_once("://").map_or(base_url, |(_, address)| address)
}

/// `http://host:port` of an address.
fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    &url[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_ends_before_the_path() {
        assert_eq!(origin("http://127.0.0.1:80/health?x"), "http://127.0.0.1:80");
        assert_eq!(origin("http://localhost:1"), "http://localhost:1");
        assert_eq!(address(origin("https://localhost:1/ready")), "localhost:1");
    }
}
