//! Output at the end of a run: summary, `handleSummary()`, report, exit status.

use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::Value;

use crate::command::{ExitStatus, Outcome, status_of};
use crate::engine::{self, Finished, Lifecycle, Plan};
use crate::log::Level;
use crate::report::{self, Iterations, Report};
use crate::run::{Run, Stop};
use crate::script::ScriptError;
use crate::script::mailbox::Returned;
use crate::summary::{SummaryData, TextOptions, export, handle_summary_data, text};

/// Least window for rates per second.
const MIN_SHOWN_SECONDS: f64 = 1e-3;

/// Writes summary and report, and returns the exit status.
pub(crate) fn finish(run: &Arc<Run>, plan: &Plan<'_>, finished: &Finished) -> Outcome {
    let (config, options) = (plan.config, run.settings());
    let everything = finished.everything();
    let duration = finished.total_duration();
    let judgement = engine::judge(&plan.guarded, &everything, duration);
    let registry = run.registry();
    let thresholds = (plan.guarded.as_slice(), judgement.as_slice());
    let stats = &options.summary_trend_stats;
    let data = SummaryData::new(&registry, &everything, stats, duration, thresholds);
    let report = report::report(run, plan, finished, &registry, &data.thresholds());
    // The virtual user of `handleSummary()` locks the registry.
    drop(registry);
    let mut written = true;
    let setup_data = run.setup_data.get();
    let mut handed = handle_summary_data(&data, options, setup_data, config.no_color);
    if !config.no_summary {
        written &= summarise(run, plan, &data, &mut handed, &report);
    }
    if finished.lifecycle.setup_error.is_none() {
        warn(run, &report);
    }
    let documents = [
        (&config.summary_export, serde_json::to_string_pretty(&export(handed))),
        (&config.report, serde_json::to_string(&report)),
    ];
    for (path, document) in documents {
        let Some(path) = path else { continue };
        written &= write_file(run, path, document.map_err(std::io::Error::from));
    }
    let status = status(run, finished, &data);
    let status = match status {
        ExitStatus::Success if !written && run.signals.any() => ExitStatus::ExternalAbort,
        ExitStatus::Success if !written => ExitStatus::Failure,
        other => other,
    };
    Outcome { status, report: Some(report) }
}

/// The exit status of the run. Logs its reason.
fn status(run: &Run, finished: &Finished, data: &SummaryData<'_>) -> ExitStatus {
    let error = |message: &str| run.log.write(Level::Error, message, &[]);
    // Including one in `handleSummary()`.
    if let Some(panic) = run.panicked() {
        error(&panic.to_string());
        return ExitStatus::Panic;
    }
    if finished.aborted {
        error("test run was aborted because a signal was received");
        return ExitStatus::ExternalAbort;
    }
    if let Some(Stop::Script(message)) = &finished.stopped {
        let message = message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
        error(&format!("test aborted{message}"));
        return ExitStatus::ScriptAborted;
    }
    let Lifecycle { setup_error, teardown_error, .. } = &finished.lifecycle;
    if let Some(failure) = setup_error.as_ref().or(teardown_error.as_ref()) {
        error(&failure.to_string());
        return status_of(failure);
    }
    let crossed = data.crossed();
    if let Some(Stop::Thresholds(metrics)) = &finished.stopped {
        error(&format!(
            "thresholds on metrics '{}' were crossed; at least one has abortOnFail enabled, stopping test prematurely",
            metrics.join(", ")
        ));
        return ExitStatus::ThresholdsFailed;
    }
    if !crossed.is_empty() {
        error(&format!("thresholds on metrics '{}' have been crossed", crossed.join(", ")));
        return ExitStatus::ThresholdsFailed;
    }
    if run.marked_failed.load(Ordering::Relaxed) {
        error("test run was marked as failed");
        return ExitStatus::MarkedAsFailed;
    }
    ExitStatus::Success
}

/// Shows the summary or the result of `handleSummary()`, which may change `handed`, its argument. False when a file
/// could not be written.
fn summarise(
    run: &Arc<Run>,
    plan: &Plan<'_>,
    data: &SummaryData<'_>,
    handed: &mut Value,
    report: &Report,
) -> bool {
    let mut written = true;
    if plan.has("handleSummary") {
        match engine::handle_summary(run, handed.to_string().into()) {
            Ok(Returned { json, outputs }) => {
                if let Some(left) = json.and_then(|json| serde_json::from_str(&json).ok()) {
                    *handed = left;
                }
                if let Some(outputs) = outputs {
                    return write_outputs(run, &outputs);
                }
            }
            // A panic is reported with the exit status.
            Err(ScriptError::Panic(_)) => {}
            Err(error) => {
                run.log.write(Level::Error, &error.to_string(), &[]);
                written = !matches!(error, ScriptError::Interrupted);
            }
        }
    }
    let color = !plan.config.no_color
        && std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none();
    let options = TextOptions {
        color,
        time_unit: run.settings().summary_time_unit.clone(),
        mode: plan.config.summary_mode,
    };
    show(&text(data, &options));
    show(&generator_line(report));
    written
}

/// Writes the result of `handleSummary()` to the streams and files it names.
fn write_outputs(run: &Run, outputs: &[(String, Vec<u8>)]) -> bool {
    let mut written = true;
    for (target, bytes) in outputs {
        match target.as_str() {
            "stdout" => show_bytes(&mut std::io::stdout().lock(), bytes),
            "stderr" => show_bytes(&mut std::io::stderr().lock(), bytes),
            path => written &= write_file(run, Path::new(path), Ok(bytes)),
        }
    }
    written
}

/// Writes a file; logs a failure and returns false.
fn write_file(run: &Run, path: &Path, contents: std::io::Result<impl AsRef<[u8]>>) -> bool {
    let result = contents.and_then(|bytes| replace(path, bytes.as_ref()));
    if let Err(error) = &result {
        let message = format!("could not write {}: {error}", path.display());
        run.log.write(Level::Error, &message, &[]);
    }
    result.is_ok()
}

/// Warns when the figures say less about the server than they seem to.
fn warn(run: &Run, report: &Report) {
    if let Some(reason) = &report.generator.reason {
        let message = format!(
            "the load generator looks like the limit, not the server: {reason}; these figures say more \
             about this machine than about the server"
        );
        run.log.write(Level::Warning, &message, &[]);
    }
    if report.iterations.complete == 0 {
        let message = "no iteration was over before the end: what was measured is of interrupted ones; \
                       consider a longer run";
        run.log.write(Level::Warning, message, &[]);
    }
    for (name, scenario) in &report.scenarios {
        let Iterations { complete, interrupted, dropped, .. } = scenario.iterations;
        if dropped == 0 {
            continue;
        }
        let message = match &scenario.open_model {
            Some(open) => format!(
                "scenario {name}: {dropped} of {} iterations were dropped because all virtual users \
                 were busy; the rate asked for was not reached",
                dropped + open.start_lag_ms.count
            ),
            None => format!(
                "scenario {name}: {dropped} of {} iterations were not started before maxDuration was \
                 over",
                complete + interrupted + dropped
            ),
        };
        run.log.write(Level::Warning, &message, &[]);
    }
}

/// Replaces a file atomically.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // A pipe or device cannot be replaced.
    if path.exists() && !path.is_file() {
        return std::fs::write(path, bytes);
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    std::fs::write(&temporary, bytes)
        .and_then(|()| std::fs::rename(&temporary, path))
        .inspect_err(|_| drop(std::fs::remove_file(&temporary)))
}

/// A line about the generator and the good requests.
fn generator_line(report: &Report) -> String {
    let generator = &report.generator;
    let seconds = report.duration_seconds;
    if seconds < MIN_SHOWN_SECONDS {
        return format!(
            "    generator: less than a millisecond was measured; {} good requests\n\n",
            report.requests.good
        );
    }
    let used = generator.cpu_seconds / seconds;
    let per_request = generator.cpu_seconds * 1e6 / report.requests.total.max(1) as f64;
    let start_lag = generator.start_lag_p99_ms.map_or_else(String::new, |p99| {
        let max = generator.start_lag_max_ms.unwrap_or_default();
        format!("start lag p99={p99:.2}ms max={max:.2}ms, ")
    });
    format!(
        "    generator: {used:.2} of {} cores ({:.0}%), {per_request:.1}µs per request, lag p99={:.2}ms max={:.2}ms, \
         {start_lag}{} dropped; {} good requests, {:.1}/s\n\n",
        generator.cores,
        100.0 * used / generator.cores.max(1) as f64,
        generator.lag_p99_ms,
        generator.lag_max_ms,
        report.iterations.dropped,
        report.requests.good,
        report.requests.good as f64 / seconds,
    )
}

pub(crate) fn show(text: &str) {
    show_bytes(&mut std::io::stdout().lock(), text.as_bytes());
}

fn show_bytes(stream: &mut impl std::io::Write, bytes: &[u8]) {
    // The reader may have closed the pipe.
    let _ = stream.write_all(bytes).and_then(|()| stream.flush());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Config, run};
    use crate::log::Messages;

    #[test]
    fn no_rates_are_shown_of_a_window_without_length() {
        let script = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(script.path(), "export default function () {}").unwrap();
        let config = Config {
            script: script.path().to_owned(),
            quiet: true,
            no_summary: true,
            messages: Messages::Keep(Arc::default()),
            ..Config::default()
        };
        let mut report = run(&config).report.unwrap();
        report.duration_seconds = 1e-6;
        let line = generator_line(&report);
        assert!(!line.contains("/s") && line.contains("less than a millisecond"), "{line}");
        report.duration_seconds = 2.0;
        assert!(generator_line(&report).contains("/s"));
    }
}
