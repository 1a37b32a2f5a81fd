//! Targets: the ways to run a variant.

use std::path::PathBuf;

use serde::Serialize;

use super::Served;

#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    Serve(Served),
    /// Any program. `{port}` and `{dir}` in it, its environment and `ready` become a free port and a fresh directory.
    Command {
        /// Started in the experiment's directory.
        argv: Vec<String>,
        env: Vec<(String, String)>,
        /// URL with status 200 to 399 when it is ready; its origin is the base URL. `None`: any response at `{port}`.
        ready: Option<String>,
    },
    Container(Container),
    /// A running server. Not started, stopped, reset or observed.
    Url(String),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Container {
    pub source: ContainerSource,
    /// Port inside the container; `None` for the one that the image exposes.
    pub port: Option<u16>,
    /// Empty for the image's own command.
    pub command: Vec<String>,
    /// Environment of the container, or of the compose command.
    pub env: Vec<(String, String)>,
    /// As for `Target::Command`.
    pub ready: Option<String>,
}

/// Paths start from the experiment's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainerSource {
    Image(String),
    Build(PathBuf),
    Compose(PathBuf),
}

impl ContainerSource {
    /// Key and value in the experiment file.
    pub fn named(&self) -> (&'static str, String) {
        match self {
            Self::Image(name) => ("image", name.clone()),
            Self::Build(dir) => ("build", dir.display().to_string()),
            Self::Compose(file) => ("compose", file.display().to_string()),
        }
    }
}

impl Container {
    /// True if it gets `{port}`, and so listens on the machine's network.
    pub fn shares_network(&self) -> bool {
        let texts = self.command.iter().chain(self.env.iter().map(|(_, value)| value));
        texts.into_iter().any(|text| text.contains("{port}"))
    }
}
