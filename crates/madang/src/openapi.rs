//! `madang openapi`: the API's description, from the code that serves it.

use std::io::Write as _;

/// Prints the document.
pub fn run() -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "{}", madang_service::app::openapi_json())?;
    Ok(())
}
