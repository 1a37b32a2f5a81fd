//! Starts variants.

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

/// Limit for the response of a running server.
const PROBE_TIME: Duration = Duration::from_secs(5);

/// A started variant.
#[derive(Default)]
pub(crate) struct Running {
    /// `None` for a `url`.
    pub process: Option<Arc<Process>>,
    /// Cgroups with all of its processes; empty if the process tree is complete.
    pub cgroups: Vec<Cgroup>,
    /// `BASE_URL` of the script, without a slash at the end.
    pub base_url: String,
    /// Prometheus pages of its nodes.
    pub metrics: Vec<Url>,
    /// Processes by name, if it reports them.
    pub processes: BTreeMap<String, Vec<u32>>,
    /// Such as `sqlite:PATH`.
    pub database: Option<String>,
    pub databases: Addresses,
    /// The CPU budget could not be applied.
    pub without_budget: bool,
}

/// Conditions of a start.
pub(crate) struct Conditions<'c> {
    pub containers: &'c Containers,
    pub data: &'c Path,
    /// File for stderr.
    pub log: &'c Path,
    pub cpus: Option<&'c CpuList>,
    /// Limit until it is ready.
    pub patience: Patience<'c>,
    /// `HOST:PORT` after a restart.
    pub address: Option<&'c str>,
}

#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Process(#[from] madang_stack::Error),
    #[error(transparent)]
    Container(#[from] ContainerError),
    #[error("{what}")]
    Io { what: &'static str, source: io::Error },
    #[error("nobody answers at {url}: a `url` variant has to be started beforehand")]
    Nobody { url: String, source: io::Error },
    #[error(
        "something answers at {url} as if it were ready before the server is started: stop it, or let \
         the server listen at `{{port}}`, which is free in every round"
    )]
    Taken { url: String },
    #[error("it became ready at no address: {0}")]
    Address(UrlError),
}

impl LaunchError {
    /// Attributes the failure to the server, or to the machine that starts it.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Process(_) | Self::Nobody { .. } | Self::Address(_) => FailureKind::Start,
            Self::Host(_) | Self::Container(_) | Self::Io { .. } | Self::Taken { .. } => {
                FailureKind::Machine
            }
        }
    }
}

/// Default readiness check: any status.
const ANY_ANSWER: &str = "http://127.0.0.1:{port}/";
/// A server that takes longer to respond is not mistaken for the started one.
const OCCUPIED_TIME: Duration = Duration::from_secs(2);

/// Checks for a running server: any response will do.
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
                cgroups: cgroups()?,
                base_url: url.clone(),
                metrics: page.into_iter().collect(),
                database,
                databases,
                ..Running::default()
            });
        }
        Target::Serve(served) => {
            // The host applies the budget to each node.
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
    // A forgotten server would be measured instead. Other responses may come from a proxy that waits for the server.
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
    // The engine applies CPUs and budget to a container.
    if let (Some(cpus), None) = (cpus, &started) {
        spec = spec.cpus((*cpus).clone());
    }
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
    // Cgroups of containers exist from their start.
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

/// True if a budget cannot be applied and the experiment accepts that.
fn may_go_without(experiment: &Experiment, budget: &CpuBudget) -> bool {
    experiment.rounds.accept.contains(&Warning::NoBudget) && budget.probe().is_err()
}

fn free_port() -> Result<String, LaunchError> {
    // Released before the command starts: a program may not set SO_REUSEADDR.
    let reservation = PortReservation::new();
    let reservation =
        reservation.map_err(|source| LaunchError::Io { what: "no free port", source })?;
    Ok(reservation.port().to_string())
}

/// Removes variables for server or generator that the lab's shell has set.
pub(crate) fn without_shell(spec: Spec, host: &dyn Host) -> Spec {
    host.own_variables().iter().fold(spec, |spec, prefix| spec.env_remove_prefix(prefix))
}

/// A command with an HTTP readiness check: `ready`, or any response at `{port}`.
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
