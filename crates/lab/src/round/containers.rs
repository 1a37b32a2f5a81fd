//! Containers: images are built or pulled before the first round, and started fresh in each.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use madang_stack::container::{Compose, ContainerError, Engine, Run};
use madang_stack::{Cgroup, CpuList, Patience, Spec};

use crate::file::experiment::{Container, ContainerSource, Experiment, Target, Variant};
use crate::plan::Plan;
use crate::round::host::Host;
use crate::run::cancel::Cancel;

/// Limit for building or pulling an image.
const BUILD_LIMIT: Duration = Duration::from_secs(3600);

/// Engine and images of a run; empty if no variant has containers.
#[derive(Debug, Default)]
pub(crate) struct Containers {
    engine: Option<Engine>,
    compose: Option<Compose>,
    images: BTreeMap<String, Image>,
}

#[derive(Debug, Clone)]
struct Image {
    id: String,
    /// Port inside; `None` on the machine's network.
    port: Option<u16>,
}

/// Containers of one round, to be started.
pub(crate) struct Start {
    pub spec: Spec,
    name: String,
    /// From a compose file; some containers may start after the server answers.
    pub is_project: bool,
}

impl Containers {
    /// Finds the engine, and builds or pulls all images.
    pub(crate) fn prepare(
        experiment: &Experiment,
        plan: &Plan,
        host: &dyn Host,
        cancel: &Cancel,
    ) -> Result<Self, (String, ContainerError)> {
        let mut containers = Self::default();
        for variant in &plan.variants {
            if let Target::Container(container) = &variant.target {
                let added = containers.add(&variant.name, container, experiment, host, cancel);
                added.map_err(|error| (variant.name.clone(), error))?;
            }
        }
        Ok(containers)
    }

    fn add(
        &mut self,
        variant: &str,
        container: &Container,
        experiment: &Experiment,
        host: &dyn Host,
        cancel: &Cancel,
    ) -> Result<(), ContainerError> {
        let give_up = || cancel.is_cancelled();
        let patience = Patience::new(BUILD_LIMIT, &give_up);
        let engine = match &self.engine {
            Some(engine) => engine,
            None => self.engine.insert(Engine::find(&host.supervisor(), patience)?),
        };
        let (name, image) = match &container.source {
            ContainerSource::Image(name) => (name.clone(), engine.image(name, patience)?),
            ContainerSource::Build(dir) => {
                let id = engine.build(&experiment.dir.join(dir), patience)?;
                (dir.display().to_string(), engine.image(&id, patience)?)
            }
            ContainerSource::Compose(path) => {
                if self.compose.is_none() {
                    self.compose = Some(engine.compose(patience)?);
                }
                let file = Engine::compose_file(&experiment.dir.join(path));
                if let (Some(compose), Some(file)) = (&self.compose, file) {
                    // The port is not used while images are built.
                    let env = environment(container, &|text| text.to_owned(), "0", "/nonexistent");
                    compose.build(&file, &env, patience)?;
                }
                return Ok(());
            }
        };
        let port = match container.port {
            _ if container.shares_network() => None,
            Some(port) => Some(port),
            None => Some(image.port(&name)?),
        };
        self.images.insert(variant.to_owned(), Image { id: image.id, port });
        Ok(())
    }

    /// Digests of images by variant.
    pub(crate) fn digests(&self) -> BTreeMap<String, String> {
        self.images.iter().map(|(name, image)| (name.clone(), image.id.clone())).collect()
    }

    /// Command that starts a variant's containers; `fill` replaces placeholders. `None` if no image was prepared.
    pub(crate) fn start(
        &self,
        experiment: &Experiment,
        variant: &Variant,
        container: &Container,
        place: ContainerPlace<'_>,
        fill: &dyn Fn(&str) -> String,
    ) -> Option<Start> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let ContainerPlace { port, dir, cpus } = place;
        let count = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("madang-{}-{count}-{port}", std::process::id());
        if let ContainerSource::Compose(path) = &container.source {
            let file = Engine::compose_file(&experiment.dir.join(path))?;
            let env = environment(container, fill, port, dir);
            let spec = self.compose.as_ref()?.up(&file, &name, &env);
            return Some(Start { spec, name, is_project: true });
        }
        let image = self.images.get(&variant.name)?;
        let filled = |(name, value): &(String, String)| (name.clone(), fill(value));
        let env: Vec<(String, String)> = container.env.iter().map(filled).collect();
        let command: Vec<String> = container.command.iter().map(|word| fill(word)).collect();
        let spec = self.engine.as_ref()?.run(&Run {
            name: &name,
            image: &image.id,
            publish: image.port.map(|inside| (port, inside)),
            env: &env,
            command: &command,
            cpus,
            budget: variant.cpus.as_ref(),
        });
        Some(Start { spec, name, is_project: false })
    }

    /// Cgroups of running containers; those of a compose file are confined to `cpus` first.
    pub(crate) fn cgroups(
        &self,
        start: &Start,
        cpus: Option<&CpuList>,
        patience: Patience<'_>,
    ) -> Result<Vec<Cgroup>, ContainerError> {
        match (&self.engine, &self.compose) {
            (_, Some(compose)) if start.is_project => compose.cgroups(&start.name, cpus, patience),
            (Some(engine), _) => engine.cgroup(&start.name, patience).map(|one| vec![one]),
            _ => Ok(Vec::new()),
        }
    }
}

/// Resources of a round's containers.
#[derive(Clone, Copy)]
pub(crate) struct ContainerPlace<'p> {
    pub port: &'p str,
    pub dir: &'p str,
    pub cpus: Option<&'p CpuList>,
}

fn environment(
    container: &Container,
    fill: &dyn Fn(&str) -> String,
    port: &str,
    dir: &str,
) -> Vec<(String, String)> {
    let own =
        [("PORT", port), ("DIR", dir)].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let given = container.env.iter().map(|(name, value)| (name.clone(), fill(value)));
    own.into_iter().chain(given).collect()
}
