//! `madang openapi`: the API's description, from the code that serves it.

use std::io::Write as _;

/// Arguments of `madang openapi`: none.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
A running server gives the same document under /openapi.json, and shows it under /docs.

Examples:
  madang openapi > openapi.json")]
pub struct Args {}

/// Prints the document.
pub fn run(_args: &Args) -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "{}", madang_service::app::openapi_json())?;
    Ok(())
}
