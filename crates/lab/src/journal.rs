//! Files of a run: its description and its journal of rounds.

pub(crate) mod provenance;
pub(crate) mod record;
pub(crate) mod stored;
