//! The thread that writes single values.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::csv::Csv;
use super::influx::{Database, Points};
use super::json::Json;
use super::spec::Format;
use super::{Batch, Message, OutputSpec, Samples};
use crate::log::Level;
use crate::run::Run;

/// At the end a disk or pipe may take nothing for so long before what is left is given up.
const STALL: Duration = Duration::from_secs(30);

enum Target {
    Plain(BufWriter<File>),
    Gzip(Box<GzEncoder<BufWriter<File>>>),
    Stdout(BufWriter<io::Stdout>),
    Database(Box<Database>),
}

impl Target {
    fn open(spec: &OutputSpec) -> io::Result<Self> {
        if let Format::Influx(settings) = &spec.format {
            return Ok(Self::Database(Database::open((**settings).clone()).into()));
        }
        let Some(path) = &spec.file else { return Ok(Self::Stdout(BufWriter::new(io::stdout()))) };
        let file = BufWriter::new(File::create(path)?);
        Ok(match path.extension().is_some_and(|extension| extension == "gz") {
            true => Self::Gzip(Box::new(GzEncoder::new(file, Compression::default()))),
            false => Self::Plain(file),
        })
    }

    fn end(self) -> io::Result<()> {
        match self {
            Self::Plain(mut file) => file.flush(),
            Self::Gzip(encoder) => encoder.finish()?.flush(),
            Self::Stdout(mut stdout) => stdout.flush(),
            Self::Database(mut database) => database.flush(),
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
            Self::Stdout(stdout) => stdout.write(bytes),
            Self::Database(database) => database.write(bytes),
        }
    }

    /// What is compressed is written when a block is full: flushing would make the file larger.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.flush(),
            Self::Gzip(_) => Ok(()),
            Self::Stdout(stdout) => stdout.flush(),
            Self::Database(database) => database.flush(),
        }
    }
}

enum Form {
    Json(Json),
    Csv(Csv),
    Influx(Points),
}

/// One file or server.
struct Output {
    name: String,
    form: Form,
    /// What of a batch is not in the file yet.
    bytes: Vec<u8>,
    /// `None` after it has failed.
    target: Option<Target>,
    is_whole: bool,
    flush_interval: Duration,
    flushed: Instant,
}

impl Output {
    fn open(spec: &OutputSpec, run: &Run) -> io::Result<Self> {
        let mut target = Target::open(spec)?;
        let form = match spec.format {
            Format::Json => Form::Json(Json::default()),
            Format::Csv(time) => {
                let csv = Csv::new(time, run.settings().system_tags);
                csv.write_header(&mut target)?;
                Form::Csv(csv)
            }
            Format::Influx(ref settings) => Form::Influx(Points::new((**settings).clone())),
        };
        Ok(Self {
            name: spec.describe(),
            form,
            bytes: Vec::new(),
            target: Some(target),
            is_whole: true,
            flush_interval: spec.flush_interval,
            flushed: Instant::now(),
        })
    }

    fn write(&mut self, batch: &Batch, run: &Run) -> io::Result<()> {
        let Some(target) = &mut self.target else { return Ok(()) };
        self.bytes.clear();
        let registry = run.registry();
        match &mut self.form {
            Form::Json(json) => {
                let thresholds = run.options.get().map_or(&[][..], |options| &options.thresholds);
                json.write(&mut self.bytes, batch, &registry, thresholds)?;
            }
            Form::Csv(csv) => csv.write(&mut self.bytes, batch, &registry)?,
            Form::Influx(points) => points.write(&mut self.bytes, batch, &registry)?,
        }
        // A file may keep this thread waiting; the registry is needed by others.
        drop(registry);
        target.write_all(&self.bytes)
    }

    fn flush_when_due(&mut self) -> io::Result<()> {
        match &mut self.target {
            Some(target) if self.flushed.elapsed() >= self.flush_interval => {
                self.flushed = Instant::now();
                target.flush()
            }
            _ => Ok(()),
        }
    }

    /// Notes how something went. After an error nothing more is written to a file; a server may come back.
    fn note(&mut self, result: io::Result<()>, run: &Run) {
        if let Err(error) = result {
            self.is_whole = false;
            if !matches!(self.target, Some(Target::Database(_))) {
                self.target = None;
            }
            let message = format!("cannot write the output {}: {error}", self.name);
            run.log.write_limited(Level::Error, &message, &[]);
        }
    }
}

/// The writing thread, as the rest of the engine sees it.
pub(crate) struct Writer {
    samples: Arc<Samples>,
    /// Whether everything was written.
    done: Receiver<bool>,
}

impl Writer {
    /// Opens the files and starts to write what comes.
    ///
    /// # Errors
    /// When a file cannot be made, with its name.
    pub(crate) fn start(specs: &[OutputSpec], run: &Arc<Run>) -> Result<Self, String> {
        let mut outputs = Vec::new();
        for spec in specs {
            let failed = |error| format!("cannot write the output {}: {error}", spec.describe());
            outputs.push(Output::open(spec, run).map_err(failed)?);
        }
        let (sender, receiver) = channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let samples = Arc::new(Samples::new(sender, queued.clone()));
        let (done_sender, done) = channel();
        let run = run.clone();
        let thread = std::thread::Builder::new().name("outputs".to_owned()).spawn(move || {
            let whole = serve(&mut outputs, &receiver, &queued, &run);
            let _ = done_sender.send(whole);
        });
        thread.map_err(|error| error.to_string())?;
        Ok(Self { samples, done })
    }

    /// Where values go.
    pub(crate) fn samples(&self) -> Arc<Samples> {
        self.samples.clone()
    }

    /// Waits until everything is written; false when something is missing, which is said.
    pub(crate) fn finish(self, run: &Run) -> bool {
        // Without a receiver there is nothing to end.
        let _ = self.samples.sender.send(Message::End);
        let error = |message: &str| run.log.write(Level::Error, message, &[]);
        let mut left = self.samples.queued.load(Ordering::Relaxed);
        let whole = loop {
            match self.done.recv_timeout(STALL) {
                Ok(whole) => break whole,
                Err(RecvTimeoutError::Timeout) => {
                    let now = self.samples.queued.load(Ordering::Relaxed);
                    if now == left {
                        error("an output takes no more values; what is left is not written");
                        break false;
                    }
                    left = now;
                }
                Err(RecvTimeoutError::Disconnected) => break false,
            }
        };
        let dropped = self.samples.dropped();
        if dropped > 0 {
            error(&format!(
                "outputs are not complete: {dropped} values came faster than they could be written"
            ));
        }
        whole && dropped == 0
    }
}

/// Writes until the end; whether everything was written.
fn serve(
    outputs: &mut [Output],
    messages: &Receiver<Message>,
    queued: &AtomicUsize,
    run: &Run,
) -> bool {
    let shortest = outputs.iter().map(|output| output.flush_interval).min().unwrap_or(STALL);
    loop {
        match messages.recv_timeout(shortest) {
            Ok(Message::Values(batch)) => {
                for output in &mut *outputs {
                    let result = output.write(&batch, run);
                    output.note(result, run);
                }
                queued.fetch_sub(batch.bytes(), Ordering::Relaxed);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => break,
        }
        for output in &mut *outputs {
            let result = output.flush_when_due();
            output.note(result, run);
        }
    }
    let mut whole = true;
    for output in outputs {
        match output.target.take() {
            Some(target) => {
                let result = target.end();
                output.note(result, run);
                whole &= output.is_whole;
            }
            None => whole = false,
        }
    }
    whole
}
