//! Files of a run: its description, and its rounds as they end.

pub(crate) mod provenance;
pub(crate) mod record;
pub(crate) mod stored;
