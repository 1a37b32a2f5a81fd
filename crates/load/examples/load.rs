//! The smallest possible load command: `cargo run --example load -- SCRIPT [VUS DURATION]`.

use std::process::ExitCode;

use madang_load::{Config, ExitStatus, Layer, parse_duration, run};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(script) = arguments.next() else {
        eprintln!("usage: load SCRIPT [VUS DURATION]");
        return ExitCode::FAILURE;
    };
    let overrides = Layer {
        vus: arguments.next().and_then(|vus| vus.parse().ok()),
        duration: arguments.next().and_then(|duration| parse_duration(&duration).ok()),
        ..Layer::default()
    };
    let environment = std::env::vars().collect();
    let report = std::env::var_os("REPORT").map(Into::into);
    let summary_export = std::env::var_os("SUMMARY_EXPORT").map(Into::into);
    let config = Config {
        script: script.into(),
        overrides,
        environment,
        report,
        summary_export,
        ..Config::default()
    };
    let status = run(&config).status;
    if status == ExitStatus::Success {
        return ExitCode::SUCCESS;
    }
    eprintln!("{status:?}");
    ExitCode::FAILURE
}
