//! `madang check`: finds what would prevent a node from serving with its settings.

use crate::exit::Partly;
use crate::settings::SettingsArgs;
use madang_service::ops::check::{Finding, check};
use madang_service::store::Store;
use std::io::Write as _;

/// Arguments of `madang check`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Nothing is changed. A line that begins with `wrong:` names what would fail.

Examples:
  madang check                                     with the settings of this directory
  madang check --config /etc/madang/madang.toml    with those of a file, before it is deployed")]
pub(crate) struct Args {
    #[command(flatten)]
    settings: SettingsArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let settings = args.settings.resolve()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "settings: right")?;
    let mut is_right = true;
    for found in check(&settings)? {
        match found {
            Finding::Right(line) => writeln!(out, "{line}")?,
            Finding::Wrong(line) => {
                is_right = false;
                writeln!(out, "wrong: {line}")?;
            }
        }
    }
    let database = Store::check(&settings.data_dir, &settings.database);
    for line in database.iter().flatten() {
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    // Without the database nothing is served, so it determines the exit code.
    database?;
    if is_right { Ok(()) } else { Err(Partly.into()) }
}
