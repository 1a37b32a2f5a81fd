//! A node: `madang serve` at a fixed address.

use super::managed::{Context, Server};
use anyhow::{Context as _, anyhow};
use madang_service::config::{Key, Settings};
use madang_stack::http::Url;
use madang_stack::{Error, Exit, Output, Patience, PortReservation, Process, Spec};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// A node opens and migrates its store, which may take long on a busy disk.
const READY_TIME: Duration = Duration::from_secs(60);
/// Time for a node to stop, beyond its own delays.
const STOP_MARGIN: Duration = Duration::from_secs(10);

/// Addresses of a node, as long as this process lives.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    pub api: SocketAddr,
    pub url: String,
    pub metrics: String,
}

/// A node, started or not.
pub(crate) struct Node {
    // Dropped before the ports.
    process: Option<Process>,
    spec: Spec,
    pub settings: Settings,
    pub addresses: Addresses,
    health: Url,
    pub log: PathBuf,
    _ports: [PortReservation; 2],
}

impl Node {
    /// A node that is not started.
    pub(crate) fn new(
        number: u16,
        own: &[(String, String)],
        context: &Context,
    ) -> anyhow::Result<Self> {
        let Context { plan, dir, .. } = context;
        let data = dir.join(format!("node-{number}"));
        let log = dir.join(format!("node-{number}.log"));
        let reserve = || PortReservation::new().context("no free port for a node");
        let ports = [reserve()?, reserve()?];
        let [api, metrics] =
            ports.each_ref().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port.port())));
        let settings = plan.resolve(&data, own)?;
        let mut spec = Spec::new("/proc/self/exe")
            .args(["serve", "--listen", &api.to_string(), "--data"])
            .arg(&data)
            .args(["--set", &format!("server.metrics_listen={metrics}")]);
        if let Some(file) = &plan.choices.config {
            spec = spec.arg("--config").arg(file);
        }
        for pair in &plan.choices.set {
            spec = spec.arg("--set").arg(pair);
        }
        for (name, value) in own {
            let key = Key::find(name).with_context(|| format!("there is no setting {name}"))?;
            spec = spec.env(key.variable(), value);
        }
        let spec = match plan.choices.node_cpus {
            Some(budget) => spec.budget(budget),
            None => spec,
        };
        let spec = spec.stdout(Output::Null).stderr(Output::File(log.clone()));
        let url = format!("http://{api}");
        let health = Url::parse(&format!("{url}/health/ready")).map_err(|why| anyhow!(why))?;
        let addresses = Addresses { api, url, metrics: format!("http://{metrics}") };
        Ok(Self { process: None, spec, settings, addresses, health, log, _ports: ports })
    }

    /// Time from SIGTERM to SIGKILL.
    fn grace(&self) -> Duration {
        let server = &self.settings.server;
        server.drain_delay.saturating_add(server.drain_timeout).saturating_add(STOP_MARGIN)
    }
}

impl Server for Node {
    fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    fn exit(&self) -> Option<Exit> {
        self.process.as_ref().and_then(Process::exit)
    }

    fn restart(&mut self, context: &Context) -> Result<(), Error> {
        self.stop(context)?;
        let process = self.process.insert(context.supervisor.spawn(&self.spec)?);
        let is_requested = || context.stopping.is_requested();
        process.ready_http(&self.health, false, Patience::new(READY_TIME, &is_requested))
    }

    fn stop(&mut self, context: &Context) -> Result<(), Error> {
        let is_urgent = || context.stopping.is_urgent();
        let patience = Patience::new(self.grace(), &is_urgent);
        self.process.as_ref().map_or(Ok(()), |process| process.stop(patience).map(drop))
    }
}
