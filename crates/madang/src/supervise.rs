//! `madang supervise`, hidden: the supervisor of a process that this program starts.

use crate::exit::ExitReason;
use madang_stack::supervisor::Supervised;
use std::ffi::OsString;

/// Arguments of `madang supervise`, set only by this program itself.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitReason> {
    Ok(match madang_stack::supervisor::main(args.args) {
        Supervised::Done => ExitReason::Done,
        Supervised::WrongUsage => ExitReason::WrongUsage,
        Supervised::Failed => ExitReason::Failed,
    })
}
