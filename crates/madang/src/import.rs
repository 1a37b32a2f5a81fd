//! `madang import WHAT FILE…`: imports files into the store.

mod markets;
mod tracks;

use crate::terminal::message;
use indicatif::ProgressBar;
use madang_service::app::App;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;

/// Arguments of `madang import`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  madang import tracks trails/*.gpx
  madang import markets markets.csv facilities.csv
  madang import tracks --help")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Running tracks: GPX 1.0 and 1.1, GeoJSON
    Tracks(tracks::Args),
    /// Traditional markets: the Korean standard data set, as CSV or JSON
    Markets(markets::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.what {
        What::Tracks(args) => tracks::run(args),
        What::Markets(args) => markets::run(args),
    }
}

/// Adds the bundled samples, except kinds of which the store has some.
pub(crate) fn fill_demo(app: &App) -> anyhow::Result<()> {
    tracks::fill_demo(app)?;
    markets::fill_demo(app)
}

/// Template of the progress of an import.
const PROGRESS: &str = "{pos}/{len}";

/// Prints a line above the bar.
fn print_above(bar: &ProgressBar, text: std::fmt::Arguments<'_>) {
    bar.suspend(|| message(text));
}

/// Reads at most one byte more than `most`, by which the parser detects a file that is too large.
fn read_file(path: &Path, most: u64) -> anyhow::Result<Vec<u8>> {
    // Checked first, because opening a pipe would wait for its writer.
    let what = std::fs::metadata(path).context("cannot be opened")?;
    anyhow::ensure!(what.is_file(), "is not a file");
    let file = File::open(path).context("cannot be opened")?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).context("cannot be read")?;
    Ok(bytes)
}
