//! `madang supervise`, hidden: how this program supervises the processes it starts.

use crate::exit::ExitReason;
use madang_stack::supervisor::Supervised;
use std::ffi::OsString;

/// Arguments of `madang supervise`, which only this program itself gives.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Supervises until the command and all its descendants are gone.
pub fn run(args: Args) -> anyhow::Result<ExitReason> {
    Ok(match madang_stack::supervisor::main(args.args) {
        Supervised::Done => ExitReason::Done,
        Supervised::WrongUsage => ExitReason::WrongUsage,
        Supervised::Failed => ExitReason::Failed,
    })
}
