//! `madang supervise`, hidden: how this program supervises the processes it starts.

use std::ffi::OsString;
use std::process::ExitCode;

/// Arguments of `madang supervise`, which only this program itself gives.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Supervises until the command and all its descendants are gone.
pub fn run(args: Args) -> ExitCode {
    madang_stack::supervisor::main(args.args)
}
