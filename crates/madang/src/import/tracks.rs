//! `madang import tracks FILE…`: trails from GPX and GeoJSON files into the store.

use super::{progress, read_file, say};
use crate::exit::Partly;
use crate::settings::SettingsArgs;
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
pub struct Args {
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

pub fn run(args: &Args) -> anyhow::Result<()> {
    let settings = args.settings.resolve()?;
    let _lock = DirLock::to_fill(&settings)?;
    let app = App::open(&settings)?;
    let files = args.files.iter().map(|path| Source {
        name: path.display().to_string(),
        content: Content::File(path.clone()),
    });
    let outcome = Import::start(&app, settings.database.queue, args.rate, args.files.len() as u64)?
        .run(files)?;
    // The work is done whether or not somebody reads of it.
    let _ = writeln!(std::io::stdout(), "{outcome}");
    if outcome.refused > 0 { Err(Partly.into()) } else { Ok(()) }
}

/// Stores the bundled trails where there are none, one at a time: ids are the same on every store, also on a server that
/// takes several writes at once.
pub fn fill_demo(app: &App) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if runtime.block_on(app.tracks.store().count())? > 0 {
        return Ok(());
    }
    let files = crate::samples::TRACKS
        .iter()
        .map(|(name, bytes)| Source { name: (*name).to_owned(), content: Content::Bytes(bytes) });
    let outcome = Import::start(app, 1, None, crate::samples::TRACKS.len() as u64)?.run(files)?;
    tracing::info!(tracks = outcome.created, "stored the bundled trails");
    if outcome.refused > 0 { Err(Partly.into()) } else { Ok(()) }
}

struct Source {
    name: String,
    content: Content,
}

enum Content {
    File(PathBuf),
    Bytes(&'static [u8]),
}

/// What became of all files.
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

/// Writes that may be under way while the next file is read: enough to share a commit.
const WRITES_UNDER_WAY: usize = 64;
/// Points of paths that may wait to be written: some 24 MB.
const POINTS_UNDER_WAY: usize = 500_000;

struct Import<'a> {
    app: &'a App,
    rate: Option<f64>,
    runtime: Runtime,
    bar: ProgressBar,
    /// Most writes under way: no more than the store's queue takes.
    most: usize,
    /// Points of the paths under way.
    points: usize,
    writes: JoinSet<(String, usize, anyhow::Result<Stored>)>,
    outcome: ImportedTracks,
}

impl<'a> Import<'a> {
    fn start(app: &'a App, queue: usize, rate: Option<f64>, files: u64) -> anyhow::Result<Self> {
        let bar = progress(files);
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

    fn run(mut self, files: impl Iterator<Item = Source>) -> anyhow::Result<ImportedTracks> {
        for source in files {
            self.bar.set_message(source.name.clone());
            match read(&source) {
                Ok(document) => self.write(source.name, document),
                Err(error) => self.refuse(&source.name, &error),
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
        // Prepared here, in the order of the files, so that ids of an embedded store follow that order.
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
        say(&self.bar, format_args!("refused {source}: {error:#}"));
        self.count(|o| o.refused += 1);
    }
}

/// Stores a track; one that is there already gets the rating, if one was given.
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

/// Reads a source, never more of it than the limit.
fn read(source: &Source) -> anyhow::Result<Document> {
    let limits = Limits::default();
    let bytes;
    let content = match &source.content {
        Content::Bytes(bytes) => bytes,
        Content::File(path) => {
            bytes = read_file(path, limits.max_bytes as u64)?;
            &bytes[..]
        }
    };
    Ok(madang_path::read(content, &limits)?)
}

/// The file's name without its ending, for a track that has none of its own, or none that can be shown.
fn file_name(source: &str) -> String {
    let stem = Path::new(source).file_stem().map(|s| s.to_string_lossy().into_owned());
    stem.as_deref().and_then(track_name).unwrap_or_else(|| "unnamed".to_owned())
}
