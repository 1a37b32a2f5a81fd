//! nginx in front of the nodes, and its certificate.

use super::kept::{Means, Part};
use super::node::Addresses;
use super::plan::FrontPlan;
use anyhow::{Context as _, anyhow};
use madang_stack::nginx::{Balancer, Certificate, Nginx};
use madang_stack::{Error, Exit};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub struct Front {
    nginx: Nginx,
    dir: PathBuf,
}

impl Front {
    pub fn start(
        plan: &FrontPlan,
        nodes: &[Addresses],
        dir: &Path,
        means: &Means,
    ) -> anyhow::Result<Self> {
        let certificate = plan.tls.then(|| certificate(dir)).transpose()?;
        let dir = dir.join("nginx");
        std::fs::create_dir_all(&dir)
            .with_context(|| format!("cannot create {}", dir.display()))?;
        let nodes = nodes.iter().map(|node| node.api).collect();
        let balancer =
            Balancer { nodes, profile: plan.profile, workers: plan.workers, certificate };
        let nginx = Nginx::balancer(&means.supervisor, &dir, &balancer)?;
        Ok(Self { nginx, dir })
    }

    pub fn url(&self) -> String {
        self.nginx.url()
    }

    pub fn log(&self) -> PathBuf {
        self.dir.join("error.log")
    }
}

impl Part for Front {
    fn pid(&self) -> Option<u32> {
        Some(self.nginx.pid())
    }

    fn exit(&self) -> Option<Exit> {
        self.nginx.exit()
    }

    fn restart(&mut self, means: &Means) -> Result<(), Error> {
        self.nginx.restart(&means.supervisor)
    }

    fn stop(&mut self, means: &Means) -> Result<(), Error> {
        let hurries = || means.stopping.hurries();
        self.nginx.stop_within(super::patience(&hurries)).map(drop)
    }
}

/// Whether the program is there that makes the certificate.
pub fn openssl_installed() -> Result<(), Error> {
    let tried = Command::new("openssl").arg("version").stdin(Stdio::null()).output();
    match tried {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Error::NotInstalled { program: "openssl", package: "openssl" })
        }
        _ => Ok(()),
    }
}

/// A certificate for this machine that it signed itself, for a year; the one of an earlier start is
/// used again, so that a browser has to be persuaded only once.
fn certificate(dir: &Path) -> anyhow::Result<Certificate> {
    let certificate = Certificate { chain: dir.join("tls.crt"), key: dir.join("tls.key") };
    if certificate.chain.exists() && certificate.key.exists() {
        return Ok(certificate);
    }
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-subj", "/CN=localhost", "-days", "365"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-keyout", "tls.key", "-out", "tls.crt"])
        .current_dir(dir)
        .stdin(Stdio::null())
        .output();
    let made = made.context("cannot run openssl")?;
    if made.status.success() {
        return Ok(certificate);
    }
    let said = String::from_utf8_lossy(&made.stderr);
    Err(anyhow!("openssl made no certificate: {}", said.trim()))
}
