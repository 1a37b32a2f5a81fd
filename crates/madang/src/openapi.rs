//! `madang openapi`: prints the API's description, generated from the code.

use std::io::Write as _;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
A running server gives the same document under /openapi.json, and shows it under /docs.

Examples:
  madang openapi > openapi.json")]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args) -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "{}", madang_service::app::openapi_json())?;
    Ok(())
}
