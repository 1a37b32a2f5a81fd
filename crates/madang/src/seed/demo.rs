//! A few neighbours for `serve --demo`: people, what they sell, what they write.

use super::{Rows, Typed, fill, users};
use anyhow::Context as _;
use clap::Parser as _;
use madang_service::app::App;
use madang_service::config::Settings;

/// Enough for a second page of everything; made before anybody tries it out.
const ROWS: [&str; 7] = [
    "--users=24",
    "--posts=400",
    "--articles=60",
    "--comments=240",
    "--likes=600",
    "--epoch=2026-01-01T00:00:00Z",
    "--shared-hash",
];

/// Fills a store in which there are neither posts nor articles nor an account that would get them. Nobody
/// can log in as one of these neighbours: their password is random and forgotten.
///
/// # Errors
/// When the store cannot take it. What was added until then stays.
pub fn fill_demo(app: &App, settings: &Settings) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let is_empty = runtime.block_on(async {
        let first = app.accounts.store().credentials(users::nickname(1)).await?;
        let posts = app.posts.store().count().await?;
        let articles = app.articles.store().count().await?;
        anyhow::Ok(first.is_none() && posts + articles == 0)
    })?;
    if !is_empty {
        return Ok(());
    }
    let rows = Rows { password: random_password()?, ..Typed::try_parse_from(ROWS)?.rows };
    let filled = fill(app, settings, &rows)?;
    for (kind, added) in filled {
        tracing::info!(kind, rows = added.new, "filled the empty store with made-up neighbours");
    }
    Ok(())
}

/// 128 bits.
fn random_password() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).context("the system has no random numbers")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
