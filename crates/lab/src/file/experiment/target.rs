//! How a variant comes to run.

use std::path::PathBuf;

use serde::Serialize;

use super::Served;

/// How a variant comes to run.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    Serve(Served),
    /// Any program. `{port}` and `{dir}` in it, its environment and `ready` are replaced in each
    /// round by a free port and a fresh directory.
    Command {
        /// Program and arguments; started in the experiment's directory.
        argv: Vec<String>,
        env: Vec<(String, String)>,
        /// The address that answers 200 to 399 when it is ready; its origin is the base URL. `None`: any answer at `{port}`.
        ready: Option<String>,
    },
    Container(Container),
    /// A server that runs already, somewhere. Not started, stopped, reset or observed.
    Url(String),
}

/// A server in one or several containers.
#[derive(Debug, Clone, PartialEq)]
pub struct Container {
    pub source: ContainerSource,
    /// Port at which an image's server listens; `None`: the one that the image exposes.
    pub port: Option<u16>,
    /// Arguments after the image's name; empty for the image's own command.
    pub command: Vec<String>,
    /// Environment of the container, or of the program that reads the compose file.
    pub env: Vec<(String, String)>,
    /// As of a command.
    pub ready: Option<String>,
}

/// Origin of containers. Paths start from the experiment's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainerSource {
    Image(String),
    Build(PathBuf),
    Compose(PathBuf),
}

impl ContainerSource {
    /// Key and value in the file.
    pub fn named(&self) -> (&'static str, String) {
        match self {
            Self::Image(name) => ("image", name.clone()),
            Self::Build(dir) => ("build", dir.display().to_string()),
            Self::Compose(file) => ("compose", file.display().to_string()),
        }
    }
}

impl Container {
    /// Whether its server listens at a port of this machine that it is told with `{port}`.
    pub fn shares_network(&self) -> bool {
        let texts = self.command.iter().chain(self.env.iter().map(|(_, value)| value));
        texts.into_iter().any(|text| text.contains("{port}"))
    }
}
