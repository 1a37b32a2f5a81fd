//! The `madang` command: one file per subcommand.
#![forbid(unsafe_code)]

mod compare;
mod config;
#[cfg(test)]
mod documented;
mod exit;
mod import;
mod limit;
mod load;
mod openapi;
mod samples;
mod seed;
mod serve;
mod settings;
mod supervise;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use std::process::ExitCode;

// Answers are many small allocations; mimalloc needs fewer instructions for them than glibc.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A backend for a neighbourhood on a tiny machine, and the lab that says which variant is better.
#[derive(Parser)]
#[command(name = "madang", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  madang serve --demo                        a filled backend on http://127.0.0.1:8080, docs under /docs
  madang import tracks trail.gpx             store a trail
  madang seed --users 200 --shared-hash      users for load tests
  madang load script.js -u 50 -d 10s         run a k6 script
  madang compare experiments/long-track      measure variants in interleaved rounds, with a verdict
  madang limit experiments/long-track --p95 200ms   find how much each variant can take

Settings: madang.toml < MADANG_… variables < flags; `madang config` prints and explains them all.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the backend
    Serve(serve::Args),
    /// Print every setting: value, where it comes from, what it means
    Config(config::Args),
    /// Store trails from GPX and GeoJSON files
    Import(import::Args),
    /// Fill a store with users and schedules, for load tests
    Seed(seed::Args),
    /// Print the OpenAPI document of the API
    Openapi(openapi::Args),
    /// Run a k6 script against a service
    Load(load::Args),
    /// Compare variants of a service under the same load
    Compare(compare::Args),
    /// Find how much a service, or each variant of it, can take
    Limit(limit::Args),
    /// Run a command whose whole process tree ends with this one's parent
    #[command(hide = true)]
    Supervise(supervise::Args),
}

/// The command line, with the table of exit codes below the help of every command.
fn command_line() -> clap::Command {
    let with_table = |command: clap::Command| {
        let above = command.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
        command.after_help(above + exit::TABLE)
    };
    with_table(Cli::command().mut_subcommands(with_table))
}

fn main() -> ExitCode {
    let matches = command_line().get_matches();
    // What clap derived can read what clap parsed: the help is all that differs.
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match cli.command {
        Command::Serve(args) => exit::code(serve::run(&args)),
        Command::Config(args) => exit::code(config::run(&args)),
        Command::Import(args) => exit::code(import::run(&args)),
        Command::Seed(args) => exit::code(seed::run(&args)),
        Command::Openapi(args) => exit::code(openapi::run(&args)),
        Command::Load(args) => exit::code(load::run(args)),
        Command::Compare(args) => exit::code(compare::run(&args)),
        Command::Limit(args) => exit::code(limit::run(args)),
        Command::Supervise(args) => exit::code(supervise::run(args)),
    }
}
