//! Files of a run: its description, and its rounds as they end.

pub mod provenance;
pub mod record;
pub mod stored;
