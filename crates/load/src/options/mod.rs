//! The options of a run: what the script, the environment and the command line ask for.

pub(crate) mod duration;
