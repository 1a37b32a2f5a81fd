//! nginx in front of the nodes, and its certificate.

use super::managed::{Context, External, FIRST_PAUSE};
use super::node::Addresses;
use super::plan::FrontPlan;
use anyhow::{Context as _, anyhow};
use madang_stack::Error;
use madang_stack::nginx::{Balancer, Certificate, Nginx};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Starts nginx; returns its log file as well.
pub(crate) fn start(
    plan: &FrontPlan,
    nodes: &[Addresses],
    context: &Context,
) -> anyhow::Result<(External<Nginx>, PathBuf)> {
    let certificate = plan.tls.then(|| certificate(&context.dir)).transpose()?;
    let dir = context.create_dir("nginx", false)?;
    let nodes = nodes.iter().map(|node| node.api).collect();
    let balancer = Balancer { nodes, profile: plan.profile, workers: plan.workers, certificate };
    let server = Nginx::balancer(&context.supervisor, &dir, &balancer)?;
    let nginx = External { server, restart: Nginx::restart, pause: FIRST_PAUSE };
    Ok((nginx, dir.join("error.log")))
}

/// Checks that openssl is installed, which creates the certificate.
pub(crate) fn openssl_installed() -> Result<(), Error> {
    let tried = Command::new("openssl").arg("version").stdin(Stdio::null()).output();
    match tried {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Error::NotInstalled { program: "openssl", package: "openssl" })
        }
        _ => Ok(()),
    }
}

/// A self-signed certificate for a year; that of an earlier start is reused, so that a browser has to accept it only
/// once.
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
    let stderr = String::from_utf8_lossy(&made.stderr);
    Err(anyhow!("openssl made no certificate: {}", stderr.trim()))
}
