//! `madang supervise`, hidden: how this program supervises the processes it starts.

use crate::exit::Ended;
use madang_stack::supervisor::Supervised;
use std::ffi::OsString;

/// Arguments of `madang supervise`, which only this program itself gives.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Supervises until the command and all its descendants are gone.
pub fn run(args: Args) -> anyhow::Result<Ended> {
    Ok(match madang_stack::supervisor::main(args.args) {
        Supervised::Done => Ended::Done,
        Supervised::WrongUsage => Ended::WrongUsage,
        Supervised::Failed => Ended::Failed,
    })
}
