//! Sample users for `serve --demo`, with posts and articles.

use super::{Rows, Typed, fill, users};
use clap::Parser as _;
use madang_service::app::App;
use madang_service::config::Settings;

/// Enough for a second page of each listing, with a creation time in the past.
const ROWS: [&str; 7] = [
    "--users=24", "--posts=400", "--articles=60", "--comments=240", "--likes=600",
    "--epoch=2026-01-01T00:00:00Z", "--shared-hash",
];

/// Existing rows of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FillState {
    Nothing,
    /// The sample users without all of their rows: an earlier start was interrupted.
    Part,
    /// Other rows.
    Something,
}

/// Fills a store without posts, articles and an account of the first user's name, and completes an interrupted fill.
/// The users' password is random and not stored, so nobody can log in as one of them.
///
/// # Errors
/// When the store fails. Rows added until then remain.
pub(crate) fn fill_demo(app: &App, settings: &Settings) -> anyhow::Result<()> {
    let mut rows = Typed::try_parse_from(ROWS)?.rows;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match runtime.block_on(look(app, &rows))? {
        FillState::Nothing => {}
        FillState::Part => tracing::info!("resuming the fill that an earlier start began"),
        FillState::Something => {
            tracing::info!("no sample users added: the store already has users, posts or articles");
            return Ok(());
        }
    }
    // 128 bits.
    rows.password = crate::up::random_hex(16)?;
    let filled = fill(app, settings, &rows)?;
    for (kind, added) in filled {
        tracing::info!(kind, rows = added.new, "added sample rows");
    }
    Ok(())
}

async fn look(app: &App, rows: &Rows) -> anyhow::Result<FillState> {
    let accounts = app.accounts.store();
    let first = match accounts.credentials(users::nickname(1)).await? {
        Some(first) => accounts.find(first.id).await?,
        None => None,
    };
    let posts = app.posts.store().count().await?;
    let articles = app.articles.store().count().await?;
    Ok(match first {
        None if posts + articles == 0 => FillState::Nothing,
        // Only sample users are created exactly then.
        Some(first) if first.created_at_ms == rows.epoch && posts.min(articles) == 0 => {
            FillState::Part
        }
        _ => FillState::Something,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use madang_service::accounts::NewUser;
    use madang_service::config::{Origin, Sources};

    fn opened(dir: &std::path::Path) -> (App, Settings) {
        let mut sources = Sources::new();
        let flag = Origin::Flag("test".to_owned());
        sources.set("data.dir", &dir.to_string_lossy(), flag).unwrap();
        let settings = sources.resolve().unwrap();
        (App::open(&settings).unwrap(), settings)
    }

    fn counts(app: &App) -> (u64, u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let posts = app.posts.store().count().await.unwrap();
            (posts, app.articles.store().count().await.unwrap())
        })
    }

    #[test]
    fn an_interrupted_start_is_completed_by_the_next_one() {
        for begun in [&["--users=24"][..], &["--users=24", "--posts=400"]] {
            let dir = tempfile::tempdir().unwrap();
            let (app, settings) = opened(dir.path());
            let more = ["--epoch=2026-01-01T00:00:00Z", "--shared-hash"];
            let rows = Typed::try_parse_from(begun.iter().chain(&more)).unwrap().rows;
            fill(&app, &settings, &rows).unwrap();
            fill_demo(&app, &settings).unwrap();
            assert_eq!(counts(&app), (400, 60), "{begun:?}");
            fill_demo(&app, &settings).unwrap();
            assert_eq!(counts(&app), (400, 60), "not twice");
        }
    }

    #[test]
    fn somebody_who_has_a_neighbours_name_gets_no_posts() {
        let dir = tempfile::tempdir().unwrap();
        let (app, settings) = opened(dir.path());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let user = NewUser {
            nickname: users::nickname(1),
            password_hash: "-".to_owned(),
            region: 11,
            created_at_ms: 1_800_000_000_000,
        };
        runtime.block_on(app.accounts.store().insert_all(vec![user])).unwrap();
        fill_demo(&app, &settings).unwrap();
        assert_eq!(counts(&app), (0, 0));
    }
}
