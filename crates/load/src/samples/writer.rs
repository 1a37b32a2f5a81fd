//! The thread that writes single values.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::csv::Csv;
use super::influx::{Database, InfluxSettings};
use super::json::Json;
use super::opentelemetry::Exporter;
use super::post::TIMEOUT;
use super::prometheus::RemoteWrite;
use super::spec::Format;
use super::{Batch, Message, OutputSpec, Samples};
use crate::log::Level;
use crate::panics::Watch;
use crate::run::Run;
use crate::script::ScriptError;

/// Time without progress after which the rest is given up at the end: two pushes may take this long.
const STALL: Duration = TIMEOUT.saturating_mul(3);

/// Interval of checks for a signal during that wait.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

enum Target {
    Gzip(Box<GzEncoder<BufWriter<File>>>),
    Plain(Box<dyn Write + Send>),
}

impl Target {
    fn open(spec: &OutputSpec) -> io::Result<Self> {
        if let Format::Influx(settings) = &spec.format {
            return Ok(Self::Plain(Box::new(Database::open((**settings).clone()))));
        }
        let Some(path) = &spec.file else {
            return Ok(Self::Plain(Box::new(BufWriter::new(io::stdout()))));
        };
        let file = BufWriter::new(File::create(path)?);
        Ok(match path.extension().is_some_and(|extension| extension == "gz") {
            true => Self::Gzip(Box::new(GzEncoder::new(file, Compression::default()))),
            false => Self::Plain(Box::new(file)),
        })
    }

    fn end(self) -> io::Result<()> {
        match self {
            Self::Gzip(encoder) => encoder.finish()?.flush(),
            Self::Plain(mut target) => target.flush(),
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Gzip(encoder) => encoder.write(bytes),
            Self::Plain(target) => target.write(bytes),
        }
    }

    /// Compressed blocks are only written when full: flushing would enlarge the file.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Gzip(_) => Ok(()),
            Self::Plain(target) => target.flush(),
        }
    }
}

enum Form {
    Json(Json),
    Csv(Csv),
    Influx(Box<InfluxSettings>),
}

struct Lines {
    form: Form,
    bytes: Vec<u8>,
    target: Target,
}

impl Lines {
    fn write(&mut self, batch: &Batch, run: &Run) -> io::Result<()> {
        self.bytes.clear();
        let registry = run.registry();
        match &mut self.form {
            Form::Json(json) => {
                json.write(&mut self.bytes, batch, &registry, &run.settings().thresholds)?;
            }
            Form::Csv(csv) => csv.write(&mut self.bytes, batch, &registry)?,
            Form::Influx(settings) => settings.write_points(&mut self.bytes, batch, &registry)?,
        }
        // Unlocks the registry: a file may block this thread.
        drop(registry);
        self.target.write_all(&self.bytes)
    }
}

enum OutputKind {
    Lines(Lines),
    Prometheus(RemoteWrite),
    OpenTelemetry(Exporter),
}

impl OutputKind {
    fn write(&mut self, batch: &Batch, run: &Run) -> io::Result<()> {
        match self {
            Self::Lines(lines) => return lines.write(batch, run),
            Self::Prometheus(series) => series.add(batch, &run.registry()),
            Self::OpenTelemetry(series) => {
                series.add(batch, &run.registry(), now().as_nanos() as u64);
            }
        }
        Ok(())
    }

    fn flush(&mut self, run: &Run) -> io::Result<()> {
        let left_out = match self {
            Self::Lines(lines) => return lines.target.flush(),
            Self::Prometheus(series) => {
                let message = series.message(&run.registry());
                message.map_or(Ok(()), |message| series.push(&message))?;
                series.take_left_out()
            }
            Self::OpenTelemetry(series) => {
                let message = series.message(&run.registry(), now().as_nanos() as u64);
                message.map_or(Ok(()), |message| series.push(&message))?;
                series.take_left_out()
            }
        };
        left_out.map_or(Ok(()), |left_out| Err(io::Error::other(left_out)))
    }

    fn end(mut self, run: &Run) -> io::Result<()> {
        if let Self::Lines(lines) = self {
            return lines.target.end();
        }
        self.flush(run)?;
        let Self::Prometheus(series) = self else { return Ok(()) };
        // Later than the last values: a second value of a moment would be rejected.
        let message = series.last_message(&run.registry(), now().as_millis() as i64 + 1);
        message.map_or(Ok(()), |message| series.push(&message))
    }

    /// True if the target is a server, which may recover.
    fn is_remote(&self) -> bool {
        !matches!(self, Self::Lines(lines) if !matches!(lines.form, Form::Influx(_)))
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

struct Output {
    name: String,
    /// `None` after it has failed.
    kind: Option<OutputKind>,
    is_whole: bool,
    flush_interval: Duration,
    flushed: Instant,
}

impl Output {
    fn open(spec: &OutputSpec, run: &Run) -> io::Result<Self> {
        let lines = |form| -> io::Result<OutputKind> {
            let mut target = Target::open(spec)?;
            if let Form::Csv(csv) = &form {
                csv.write_header(&mut target)?;
            }
            Ok(OutputKind::Lines(Lines { form, bytes: Vec::new(), target }))
        };
        let kind = match &spec.format {
            Format::Json => lines(Form::Json(Json::default()))?,
            Format::Csv(time) => lines(Form::Csv(Csv::new(*time, run.settings().system_tags)))?,
            Format::Influx(settings) => lines(Form::Influx(settings.clone()))?,
            Format::Prometheus(settings) => {
                OutputKind::Prometheus(RemoteWrite::new((**settings).clone()))
            }
            Format::OpenTelemetry(settings) => {
                OutputKind::OpenTelemetry(Exporter::new((**settings).clone()))
            }
        };
        Ok(Self {
            name: spec.describe(),
            kind: Some(kind),
            is_whole: true,
            flush_interval: spec.flush_interval,
            flushed: Instant::now(),
        })
    }

    fn write(&mut self, batch: &Batch, run: &Run) {
        let result = self.kind.as_mut().map_or(Ok(()), |kind| kind.write(batch, run));
        self.check(result, run);
    }

    fn flush_when_due(&mut self, run: &Run) {
        if self.flushed.elapsed() >= self.flush_interval {
            let result = self.kind.as_mut().map_or(Ok(()), |kind| kind.flush(run));
            // Afterwards: a slow push must not cause the next at once.
            self.flushed = Instant::now();
            self.check(result, run);
        }
    }

    /// Returns whether everything was written.
    fn end(&mut self, run: &Run) -> bool {
        let Some(kind) = self.kind.take() else { return false };
        let result = kind.end(run);
        self.check(result, run);
        self.is_whole
    }

    /// Logs an error. It ends the output to a file, but not to a server, which may recover.
    fn check(&mut self, result: io::Result<()>, run: &Run) {
        if let Err(error) = result {
            self.is_whole = false;
            self.kind = self.kind.take().filter(OutputKind::is_remote);
            let message = format!("cannot write the output {}: {error}", self.name);
            run.log.write_limited(Level::Error, &message, &[]);
        }
    }
}

pub(crate) struct Writer {
    pub(crate) samples: Arc<Samples>,
    /// Names of the outputs, for messages.
    names: String,
    /// Receives whether everything was written.
    done: Receiver<bool>,
}

impl Writer {
    pub(crate) fn start(specs: &[OutputSpec], run: &Arc<Run>) -> Result<Self, ScriptError> {
        let mut outputs = Vec::new();
        for spec in specs {
            let opened = Output::open(spec, run).map_err(|error| {
                ScriptError::Start(format!("cannot write the output {}: {error}", spec.describe()))
            });
            outputs.push(opened?);
        }
        Self::spawn(outputs, run)
    }

    fn spawn(mut outputs: Vec<Output>, run: &Arc<Run>) -> Result<Self, ScriptError> {
        let names: Vec<&str> = outputs.iter().map(|output| &*output.name).collect();
        let names = names.join(", ");
        let (sender, receiver) = channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let samples = Arc::new(Samples::new(sender, queued.clone()));
        let (done_sender, done) = channel();
        let run = run.clone();
        let thread = std::thread::Builder::new().name("outputs".to_owned()).spawn(move || {
            let _watch = Watch::new(&run, "the thread that writes the outputs");
            let whole = serve(&mut outputs, &receiver, &queued, &run);
            let _ = done_sender.send(whole);
        });
        thread.map_err(|error| ScriptError::Start(error.to_string()))?;
        Ok(Self { samples, names, done })
    }

    /// Waits until everything is written; logs and returns false when values are missing.
    pub(crate) fn finish(self, run: &Run) -> bool {
        // Without a receiver the thread has ended.
        let _ = self.samples.sender.send(Message::End);
        let error = |message: &str| run.log.write(Level::Error, message, &[]);
        let queued = || self.samples.queued.load(Ordering::Relaxed);
        let (mut left, mut since, mut signalled) = (queued(), Instant::now(), false);
        let whole = loop {
            match self.done.recv_timeout(SIGNAL_INTERVAL) {
                Ok(whole) => break whole,
                // It has panicked, which is reported with the exit status.
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if !signalled && run.signals.any() {
                signalled = true;
                let message = format!(
                    "waiting until the last values are written to {}; \
                     another signal ends this at once",
                    self.names
                );
                run.log.write(Level::Warning, &message, &[]);
            }
            let now = queued();
            if now != left {
                (left, since) = (now, Instant::now());
            } else if since.elapsed() >= STALL {
                error("an output takes no more values; what is left is not written");
                break false;
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

/// Writes until the end; returns whether everything was written.
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
                outputs.iter_mut().for_each(|output| output.write(&batch, run));
                queued.fetch_sub(batch.bytes(), Ordering::Relaxed);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => break,
        }
        outputs.iter_mut().for_each(|output| output.flush_when_due(run));
    }
    // Ends all, also after a failure.
    let whole: Vec<bool> = outputs.iter_mut().map(|output| output.end(run)).collect();
    whole.into_iter().all(|whole| whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Log;
    use crate::metrics::{Builtin, SampleTags};

    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            panic!("a bug")
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_panic_of_the_writing_thread_stops_the_run() {
        let run = Arc::new(Run::new("s.js".into(), Log::default()));
        let target = Target::Plain(Box::new(Broken));
        let lines = Lines { form: Form::Json(Json::default()), bytes: Vec::new(), target };
        let output = Output {
            name: "broken".to_owned(),
            kind: Some(OutputKind::Lines(lines)),
            is_whole: true,
            flush_interval: STALL,
            flushed: Instant::now(),
        };
        let writer = Writer::spawn(vec![output], &run).unwrap();
        let values = [(Builtin::Vus.id(), 1.0)];
        writer.samples.send(Instant::now(), &values, &SampleTags::default());
        assert!(!writer.finish(&run));
        let place = "the thread that writes the outputs".to_owned();
        assert_eq!(run.panicked(), Some(ScriptError::Panic(place)));
    }
}
