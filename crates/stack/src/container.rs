//! Containers of docker or podman, started and stopped like processes: `run` of an image, `up` of a compose file.
//!
//! Both programs have the same commands. The engine's own configuration (OCI runtime, limits, cgroup driver) is not
//! touched. The client runs in the foreground under a supervisor; the engine's own command then removes what the
//! engine holds for it, even if the owner was killed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Cgroup, CpuBudget, CpuList, Error, Exit, Output, Patience, Spec, Supervisor, Tail};

/// Time limit of a query; the engine may be busy with other images.
const ASK_LIMIT: Duration = Duration::from_secs(30);
/// Paths at which podman looks for the program that `--init` starts, in builds of several distributions.
const PODMAN_INITS: [&str; 4] = [
    "/usr/libexec/podman/catatonit",
    "/usr/lib/podman/catatonit",
    "/usr/local/libexec/podman/catatonit",
    "/usr/bin/catatonit",
];
/// Names of a compose file, the preferred one first (Compose specification, "The Compose file").
const COMPOSE_FILES: [&str; 4] =
    ["compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"];
/// Line printed once all containers of a compose file have been started.
pub const UP_LINE: &str = "containers are up";
/// Names of the file from which an image is built.
pub const CONTAINER_FILES: [&str; 2] = ["Dockerfile", "Containerfile"];
/// Label of the containers of docker compose and podman-compose.
const PROJECT_LABEL: &str = "com.docker.compose.project";

/// Error of starting or observing a container.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages and names say it")]
pub enum ContainerError {
    #[error("no container engine: neither `docker version` nor `podman version` succeeds{0}")]
    NoEngine(Tail),
    #[error(
        "no program for compose files: `docker compose`, `docker-compose` or `podman-compose` is needed"
    )]
    NoCompose,
    #[error("`{command}` failed ({exit}){stderr}")]
    Failed { command: String, exit: Exit, stderr: Tail },
    #[error("image `{image}` exposes {}: name the port it listens at with `port`", ports(.found))]
    Port { image: String, found: Vec<u16> },
    #[error("its containers cannot be observed: {0}")]
    Unobserved(String),
    #[error(transparent)]
    Process(Box<Error>),
}

impl From<Error> for ContainerError {
    fn from(error: Error) -> Self {
        Self::Process(Box::new(error))
    }
}

fn ports(found: &[u16]) -> String {
    if found.is_empty() { "no TCP port".to_owned() } else { format!("several TCP ports {found:?}") }
}

/// A working container engine.
#[derive(Debug, Clone)]
pub struct Engine {
    program: &'static str,
    supervisor: Supervisor,
    has_init: bool,
}

/// An image on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Digest.
    pub id: String,
    /// Exposed TCP ports.
    pub ports: Vec<u16>,
}

/// One container to be run.
#[derive(Debug, Clone, Copy)]
pub struct Run<'r> {
    /// Name of the container, unused so far.
    pub name: &'r str,
    /// Name or digest of the image.
    pub image: &'r str,
    /// Port on this machine and port inside; `None` shares the machine's network.
    pub publish: Option<(&'r str, u16)>,
    /// Environment.
    pub env: &'r [(String, String)],
    /// Arguments after the image; empty for the image's own command.
    pub command: &'r [String],
    /// Allowed CPUs; all if `None`.
    pub cpus: Option<&'r CpuList>,
    /// Limit of its CPU time; none if `None`.
    pub budget: Option<&'r CpuBudget>,
}

impl Engine {
    /// Docker if its daemon responds, else podman.
    ///
    /// # Errors
    /// When neither works.
    pub fn find(supervisor: &Supervisor, patience: Patience<'_>) -> Result<Self, ContainerError> {
        let mut tail = Tail::default();
        for program in ["docker", "podman"] {
            let has_init =
                program == "docker" || PODMAN_INITS.iter().any(|init| Path::new(init).exists());
            let engine = Self { program, supervisor: supervisor.clone(), has_init };
            match engine.ask(&["version"], patience) {
                Ok(_) => return Ok(engine),
                Err(ContainerError::Process(error)) if matches!(*error, Error::GivenUp { .. }) => {
                    return Err(ContainerError::Process(error));
                }
                Err(ContainerError::Failed { stderr, .. }) => tail = stderr,
                Err(_) => {}
            }
        }
        Err(ContainerError::NoEngine(tail))
    }

    /// Name of the program.
    pub fn name(&self) -> &'static str {
        self.program
    }

    /// Builds the image of a directory with a Dockerfile; returns its digest.
    ///
    /// # Errors
    /// When the build fails.
    pub fn build(&self, dir: &Path, patience: Patience<'_>) -> Result<String, ContainerError> {
        let dir = dir.to_string_lossy();
        let lines = self.run_to_end(self.spec().args(["build", "--quiet"]).arg(&*dir), patience)?;
        Ok(lines.last().cloned().unwrap_or_default())
    }

    /// Looks up an image, and pulls it first if it is not on this machine.
    ///
    /// # Errors
    /// When it cannot be pulled.
    pub fn image(&self, name: &str, patience: Patience<'_>) -> Result<Image, ContainerError> {
        const FORMAT: &str = "{{.Id}} {{range $port, $_ := .Config.ExposedPorts}}{{$port}} {{end}}";
        let inspect = ["image", "inspect", "--format", FORMAT, name];
        let lines = match self.ask(&inspect, patience) {
            Err(ContainerError::Failed { .. }) => {
                self.run_to_end(self.spec().args(["pull", "--quiet", name]), patience)?;
                self.ask(&inspect, patience)?
            }
            lines => lines?,
        };
        Ok(Image::parse(&lines.join(" ")))
    }

    /// Command that runs one container, which is removed afterwards.
    pub fn run(&self, run: &Run<'_>) -> Spec {
        let mut spec = self.spec().args(["run", "--rm", "--name", run.name]);
        if self.has_init {
            // A first process without a SIGTERM handler ignores the signal; the init program forwards it.
            spec = spec.arg("--init");
        }
        spec = match run.publish {
            Some((outside, inside)) => {
                spec.arg("--publish").arg(format!("127.0.0.1:{outside}:{inside}"))
            }
            None => spec.args(["--network", "host"]),
        };
        for (name, value) in run.env {
            spec = spec.arg("--env").arg(format!("{name}={value}"));
        }
        if let Some(cpus) = run.cpus {
            spec = spec.arg("--cpuset-cpus").arg(cpus.to_string());
        }
        if let Some(budget) = run.budget {
            spec = spec.arg("--cpus").arg(budget.base().to_string());
        }
        let spec = spec.arg(run.image).args(run.command);
        spec.afterwards([self.program, "rm", "--force", "--volumes", run.name])
    }

    /// Cgroup of a running container.
    ///
    /// # Errors
    /// When it does not run, or not on this machine.
    pub fn cgroup(
        &self,
        container: &str,
        patience: Patience<'_>,
    ) -> Result<Cgroup, ContainerError> {
        let lines = self.ask(&["inspect", "--format", "{{.State.Pid}}", container], patience)?;
        let pid = lines.first().and_then(|line| line.trim().parse().ok()).filter(|pid| *pid != 0);
        let pid =
            pid.ok_or_else(|| ContainerError::Unobserved(format!("`{container}` has ended")))?;
        Cgroup::of_process(pid).map_err(|error| ContainerError::Unobserved(error.to_string()))
    }

    /// Compose file in a directory, or the file itself.
    pub fn compose_file(path: &Path) -> Option<PathBuf> {
        if path.is_file() {
            return Some(path.to_owned());
        }
        COMPOSE_FILES.iter().map(|name| path.join(name)).find(|file| file.is_file())
    }

    /// Program that runs compose files with this engine.
    ///
    /// # Errors
    /// When there is none.
    pub fn compose(&self, patience: Patience<'_>) -> Result<Compose, ContainerError> {
        let candidates: &[&[&'static str]] = match self.program {
            "docker" => &[&["docker", "compose"], &["docker-compose"]],
            _ => &[&["podman-compose"]],
        };
        for words in candidates {
            let spec = Spec::new(words[0]).args(&words[1..]).arg("version");
            match self.run_to_end(spec, patience) {
                Ok(_) => return Ok(Compose { engine: self.clone(), words: words.to_vec() }),
                Err(ContainerError::Process(error)) if matches!(*error, Error::GivenUp { .. }) => {
                    return Err(ContainerError::Process(error));
                }
                Err(_) => {}
            }
        }
        Err(ContainerError::NoCompose)
    }

    fn spec(&self) -> Spec {
        Spec::new(self.program)
    }

    fn ask(&self, args: &[&str], patience: Patience<'_>) -> Result<Vec<String>, ContainerError> {
        self.run_to_end(self.spec().args(args), patience.at_most(ASK_LIMIT))
    }

    /// Runs a command; returns the first lines of its stdout.
    fn run_to_end(
        &self,
        spec: Spec,
        patience: Patience<'_>,
    ) -> Result<Vec<String>, ContainerError> {
        let spec = spec.stdout(Output::Capture).stderr(Output::Capture);
        let process = self.supervisor.spawn(&spec)?;
        let exit = process.wait_patiently(patience)?;
        if exit.is_success() {
            return Ok(process.stdout_lines());
        }
        Err(ContainerError::Failed {
            command: spec.command_line(),
            exit,
            stderr: process.stderr_tail(),
        })
    }
}

impl Image {
    /// Parses `ID 8080/tcp 53/udp`.
    pub(crate) fn parse(line: &str) -> Self {
        let mut words = line.split_whitespace();
        let id = words.next().unwrap_or_default().to_owned();
        let tcp = |word: &str| word.strip_suffix("/tcp").unwrap_or(word).parse().ok();
        Self { id, ports: words.filter_map(tcp).collect() }
    }

    /// The only exposed TCP port.
    ///
    /// # Errors
    /// When there is none, or more than one; the message contains `name`.
    pub fn port(&self, name: &str) -> Result<u16, ContainerError> {
        match self.ports[..] {
            [port] => Ok(port),
            _ => Err(ContainerError::Port { image: name.to_owned(), found: self.ports.clone() }),
        }
    }
}

/// Runs compose files.
#[derive(Debug, Clone)]
pub struct Compose {
    engine: Engine,
    words: Vec<&'static str>,
}

impl Compose {
    /// Builds the images of a file that need it.
    ///
    /// # Errors
    /// When a build fails.
    pub fn build(
        &self,
        file: &Path,
        env: &[(String, String)],
        patience: Patience<'_>,
    ) -> Result<(), ContainerError> {
        let spec = self.command(file, "madang-build").arg("build");
        let spec = env.iter().fold(spec, |spec, (name, value)| spec.env(name, value));
        self.engine.run_to_end(spec, patience).map(drop)
    }

    /// Command that starts the containers of a file as a project and follows their logs on stderr until all have
    /// ended: some, such as migrations, may end before the others are ready. Its stdout has only [`UP_LINE`], once
    /// all have been started. Containers, networks and volumes are removed when it has ended.
    pub fn up(&self, file: &Path, project: &str, env: &[(String, String)]) -> Spec {
        const UP: &str = r#""$@" up --detach >&2 && echo "$0" && exec "$@" logs --follow >&2"#;
        // podman-compose before 1.1 leaves the network.
        const DOWN: &str = r#""$@" down --volumes --timeout 2; case $1 in podman*) podman network rm --force "$0" ;; esac"#;
        let Spec { program, args, .. } = self.command(file, project);
        let compose = || std::iter::once(program.clone()).chain(args.iter().cloned());
        let network = OsString::from(format!("{project}_default"));
        let down =
            ["sh", "-c", DOWN].map(OsString::from).into_iter().chain([network]).chain(compose());
        let spec = Spec::new("sh").args(["-c", UP, UP_LINE]).args(compose()).afterwards(down);
        env.iter().fold(spec, |spec, (name, value)| spec.env(name, value))
    }

    /// Confines a project's containers to `cpus` and returns their cgroups.
    ///
    /// # Errors
    /// When there are none, or the engine cannot confine them.
    pub fn cgroups(
        &self,
        project: &str,
        cpus: Option<&CpuList>,
        patience: Patience<'_>,
    ) -> Result<Vec<Cgroup>, ContainerError> {
        let filter = format!("label={PROJECT_LABEL}={project}");
        let found = self.engine.ask(&["ps", "--quiet", "--filter", &filter], patience)?;
        let ids: Vec<&str> =
            found.iter().map(|line| line.trim()).filter(|id| !id.is_empty()).collect();
        if ids.is_empty() {
            let why = format!("`{} ps` lists none of project {project}", self.engine.program);
            return Err(ContainerError::Unobserved(why));
        }
        if let Some(cpus) = cpus {
            for id in &ids {
                self.engine.ask(&["update", "--cpuset-cpus", &cpus.to_string(), id], patience)?;
            }
        }
        ids.iter().map(|id| self.engine.cgroup(id, patience)).collect()
    }

    fn command(&self, file: &Path, project: &str) -> Spec {
        Spec::new(self.words[0]).args(&self.words[1..]).args(["-p", project, "-f"]).arg(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_with_one_port_needs_no_other_word() {
        let image = Image::parse("sha256:abc 8080/tcp 53/udp ");
        assert_eq!(image, Image { id: "sha256:abc".to_owned(), ports: vec![8080] });
        assert_eq!(image.port("shop").unwrap(), 8080);
        for (line, words) in
            [("x ", "no TCP port"), ("x 80/tcp 443/tcp", "several TCP ports [80, 443]")]
        {
            let error = Image::parse(line).port("shop").unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("`shop`"), "{error}");
        }
    }

    #[test]
    fn a_directory_is_searched_for_a_compose_file() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Engine::compose_file(dir.path()), None);
        for name in ["docker-compose.yml", "compose.yaml"] {
            let file = dir.path().join(name);
            std::fs::write(&file, "").unwrap();
            assert_eq!(Engine::compose_file(dir.path()), Some(file.clone()));
            assert_eq!(Engine::compose_file(&file), Some(file));
        }
    }
}
