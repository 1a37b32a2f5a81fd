#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod admin;
mod backup;
mod check;
mod compare;
mod config;
mod copy;
#[cfg(test)]
mod documented;
mod exit;
mod import;
mod init;
mod k6;
mod limit;
mod load;
mod openapi;
mod restore;
mod samples;
mod seed;
mod serve;
mod settings;
mod shell;
mod supervise;
mod terminal;
mod up;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

// Responses are many small allocations, for which mimalloc needs fewer instructions than glibc.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `scripts/dist` names the commit.
const VERSION: &str = match option_env!("MADANG_BUILD") {
    Some(build) => build,
    None => concat!(env!("CARGO_PKG_VERSION"), " (development build)"),
};

/// Backend of a neighbourhood app for very small machines, and a lab that compares variants of any service
#[derive(Parser)]
#[command(name = "madang", version = VERSION, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  madang serve --demo                              serve sample data on http://127.0.0.1:8080;
                                                   API description at /docs
  madang up --nodes 2 --demo                       two nodes on one MariaDB, behind nginx
  madang import tracks trail.gpx                   import a trail
  madang seed --users 200 --shared-hash            add users for load tests
  madang copy --from madang-data --to mysql://root@127.0.0.1/madang
                                                   move the data to MariaDB
  madang backup --to /var/backups/madang           save everything in one file, while it is
                                                   served
  madang check --config madang.toml                what would keep a node from serving
  madang admin status                              how a running server is
  madang load script.js -u 50 -d 10s               run a k6 script
  madang compare experiments/long-track            is a variant better or worse?
  madang limit experiments/long-track --p95 200ms  find the highest rate that each variant can
                                                   serve

Settings: madang.toml < MADANG_… variables < flags; `madang config` lists and explains all of
them.

Guide, in English and Korean: docs/guide, in the package /usr/share/doc/madang/docs/guide")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the backend
    Serve(serve::Args),
    /// Run nodes, their database and nginx on this machine, for trying out and testing
    Up(up::Args),
    /// Inspect and change a running backend: users, content, cache, log, maintenance
    Admin(admin::Args),
    /// Print every setting with its value, origin and meaning
    Config(config::Args),
    /// Check settings, and the directory, addresses and servers that they name
    Check(check::Args),
    /// Import running tracks or traditional markets from files
    Import(import::Args),
    /// Copy a data directory to MariaDB, so that several nodes can serve it
    Copy(copy::Args),
    /// Save the whole store in one file, while it is served
    Backup(backup::Args),
    /// Make a data directory from a backup
    Restore(restore::Args),
    /// Add users, schedules, posts, articles and likes for load tests
    Seed(seed::Args),
    /// Print the OpenAPI document
    Openapi(openapi::Args),
    /// Run a k6 script against a service
    Load(Box<load::Args>),
    /// Write an experiment file from the contents of a directory
    Init(init::Args),
    /// Compare variants of a service under the same load
    Compare(compare::Args),
    /// Find the highest request rate that a service, or each variant of it, can serve
    Limit(limit::Args),
    /// Print the completions of a shell
    Completions(shell::Completions),
    /// Write man pages
    #[command(hide = true)]
    Man(shell::Man),
    /// Run k6 as the load generator of an experiment
    #[command(hide = true)]
    K6(k6::Args),
    /// Run a command and end its whole process tree when the parent of this process ends
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
    let args = load::normalize_args(std::env::args_os());
    let is_load = args.get(1).is_some_and(|command| command == "load");
    let matches = command_line().try_get_matches_from(args).unwrap_or_else(|error| {
        if let Some(reason) = load::explain(&error).filter(|_| is_load) {
            terminal::message(reason);
            exit::ExitReason::Load(madang_load::ExitStatus::InvalidConfig).at_once();
        }
        error.exit()
    });
    // Cannot fail in practice: the command differs from the derived one only in its help.
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    // The panic has been printed. Its default exit code 101 has another meaning in the table.
    catch_unwind(AssertUnwindSafe(|| run(cli.command)))
        .unwrap_or_else(|_| exit::ExitReason::Failed.code().into())
}

fn run(command: Command) -> ExitCode {
    match command {
        Command::Serve(args) => exit::code(serve::run(&args)),
        Command::Up(args) => exit::code(up::run(args)),
        Command::Admin(args) => exit::code(admin::run(args)),
        Command::Config(args) => exit::code(config::run(&args)),
        Command::Check(args) => exit::code(check::run(&args)),
        Command::Import(args) => exit::code(import::run(&args)),
        Command::Copy(args) => exit::code(copy::run(&args)),
        Command::Backup(args) => exit::code(backup::run(&args)),
        Command::Restore(args) => exit::code(restore::run(&args)),
        Command::Seed(args) => exit::code(seed::run(&args)),
        Command::Openapi(args) => exit::code(openapi::run(&args)),
        Command::Load(args) => exit::code(load::run(*args)),
        Command::Init(args) => exit::code(init::run(&args)),
        Command::Compare(args) => exit::code(compare::run(&args)),
        Command::Limit(args) => exit::code(limit::run(args)),
        Command::Completions(args) => exit::code(shell::completions(&args, command_line())),
        Command::Man(args) => exit::code(shell::man(&args, command_line())),
        Command::K6(args) => exit::code(k6::run(&args)),
        Command::Supervise(args) => exit::code(supervise::run(args)),
    }
}
