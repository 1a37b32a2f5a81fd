//! `madang import tracks FILE…`: imports trails from GPX and GeoJSON files.

use super::{PROGRESS, print_above, read_file};
use crate::exit::Partly;
use crate::settings::SettingsArgs;
use crate::terminal::bar;
use anyhow::Context as _;
use indicatif::ProgressBar;
use madang_path::{Document, Limits};
use madang_service::app::App;
use madang_service::idempotency::Once;
use madang_service::store::{ChangeError, DirLock};
use madang_service::tracks::{NewTrack, PreparedTrack, Stored, TrackStore, Tracks, track_name};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// Arguments of `madang import tracks`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Each file becomes one track; each of its lines (trkseg, rte, LineString) becomes a segment. A
file that cannot be imported is reported with the reason, and the others are imported; the exit
code is then 1. A track with the name and path of a stored one is not imported again.

Examples:
  madang import tracks trails/*.gpx
  madang import tracks --rate 4.5 --data /var/lib/madang riverside.geojson")]
pub(crate) struct Args {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Rating of these tracks in stars, 0 to 5; 0 = not rated. Also applied to those already stored
    #[arg(long, value_name = "STARS", value_parser = stars)]
    rate: Option<f64>,
    /// Files to import
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

fn stars(text: &str) -> anyhow::Result<f64> {
    match text.parse::<f64>() {
        Ok(rate) if (0.0..=5.0).contains(&rate) => Ok(rate),
        _ => anyhow::bail!("a rating from 0 to 5"),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let settings = args.settings.resolve()?;
    let _lock = DirLock::to_fill(&settings)?;
    let app = App::open(&settings)?;
    let limits = Limits::default();
    let read = |path: &PathBuf| {
        let bytes = read_file(path, limits.max_bytes as u64)?;
        Ok(madang_path::read(&bytes, &limits)?)
    };
    let files = args.files.iter().map(|path| (path.display().to_string(), path));
    let outcome = Import::start(&app, settings.database.queue, args.rate, args.files.len() as u64)?
        .run(files, read)?;
    // The import is complete even if nobody reads this.
    let _ = writeln!(std::io::stdout(), "{outcome}");
    if outcome.refused > 0 { Err(Partly.into()) } else { Ok(()) }
}

/// Stores the bundled trails if there are none, one at a time, so that ids are the same on every store.
pub(crate) fn fill_demo(app: &App) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if runtime.block_on(app.tracks.store().count())? > 0 {
        return Ok(());
    }
    let files = crate::samples::TRACKS;
    let named = files.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes));
    let outcome = Import::start(app, 1, None, files.len() as u64)?
        .run(named, |bytes| Ok(madang_path::read(bytes, &Limits::default())?))?;
    tracing::info!(tracks = outcome.created, "stored the bundled trails");
    if outcome.refused > 0 { Err(Partly.into()) } else { Ok(()) }
}

/// Counts of all files.
#[derive(Debug, Default)]
struct ImportedTracks {
    created: usize,
    existing: usize,
    refused: usize,
}

impl std::fmt::Display for ImportedTracks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "imported {}, already there {}, refused {}",
            self.created, self.existing, self.refused
        )
    }
}

/// Maximum number of concurrent writes: enough to share a commit.
const WRITES_UNDER_WAY: usize = 64;
/// Maximum number of points of paths in concurrent writes: some 24 MB.
const POINTS_UNDER_WAY: usize = 500_000;

struct Import<'a> {
    app: &'a App,
    rate: Option<f64>,
    runtime: Runtime,
    bar: ProgressBar,
    /// Maximum number of concurrent writes, within the store's queue.
    most: usize,
    /// Points of the paths of these writes.
    points: usize,
    writes: JoinSet<(String, usize, anyhow::Result<Stored>)>,
    outcome: ImportedTracks,
}

impl<'a> Import<'a> {
    fn start(app: &'a App, queue: usize, rate: Option<f64>, files: u64) -> anyhow::Result<Self> {
        let bar = bar(files, PROGRESS);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self {
            app,
            rate,
            runtime,
            bar,
            most: WRITES_UNDER_WAY.min(queue),
            points: 0,
            writes: JoinSet::new(),
            outcome: ImportedTracks::default(),
        })
    }

    fn run<F>(
        mut self,
        files: impl Iterator<Item = (String, F)>,
        read: impl Fn(F) -> anyhow::Result<Document>,
    ) -> anyhow::Result<ImportedTracks> {
        for (name, file) in files {
            self.bar.set_message(name.clone());
            match read(file) {
                Ok(document) => self.write(name, document),
                Err(error) => self.refuse(&name, &error),
            }
            while self.writes.len() >= self.most || self.points > POINTS_UNDER_WAY {
                self.settle_one();
            }
        }
        while !self.writes.is_empty() {
            self.settle_one();
        }
        self.bar.finish_and_clear();
        Ok(self.outcome)
    }

    fn write(&mut self, source: String, document: Document) {
        let own = document.name.as_deref().and_then(track_name);
        let name = own.unwrap_or_else(|| file_name(&source));
        let points = document.path.points();
        // In the order of the files, so that ids of an embedded store follow it.
        let track = TrackStore::prepare(NewTrack {
            name,
            rate: self.rate.unwrap_or(0.0),
            path: document.path,
            owner: None,
        });
        let tracks = self.app.tracks.clone();
        let rate = self.rate;
        let work = async move {
            let stored = store(&tracks, track, rate).await.context("cannot store the track");
            (source, points, stored)
        };
        self.points += points;
        self.writes.spawn_on(work, self.runtime.handle());
    }

    fn settle_one(&mut self) {
        let Some(done) = self.runtime.block_on(self.writes.join_next()) else { return };
        let (source, points, stored) = match done {
            Ok(done) => done,
            Err(error) => return self.refuse("(unknown file)", &anyhow::Error::from(error)),
        };
        self.points -= points;
        match stored {
            Ok(Stored::Created(_)) => self.count(|o| o.created += 1),
            Ok(Stored::Exists(_)) => self.count(|o| o.existing += 1),
            Err(error) => self.refuse(&source, &error),
        }
    }

    fn count(&mut self, change: impl FnOnce(&mut ImportedTracks)) {
        change(&mut self.outcome);
        self.bar.inc(1);
    }

    fn refuse(&mut self, source: &str, error: &anyhow::Error) {
        print_above(&self.bar, format_args!("refused {source}: {error:#}"));
        self.count(|o| o.refused += 1);
    }
}

/// Stores a track. An existing one only receives the rating, if one was given.
async fn store(
    tracks: &Tracks,
    track: PreparedTrack,
    rate: Option<f64>,
) -> Result<Stored, ChangeError> {
    let stored = tracks.store().create(track, Once::default()).await?.outcome;
    if let (Stored::Exists(id), Some(rate)) = (stored, rate) {
        tracks.store().set_rate(id, rate).await?;
    }
    Ok(stored)
}

/// The file's name without its extension, for a track without a valid name.
fn file_name(source: &str) -> String {
    let stem = Path::new(source).file_stem().map(|s| s.to_string_lossy().into_owned());
    stem.as_deref().and_then(track_name).unwrap_or_else(|| "unnamed".to_owned())
}
