//! Traditional markets.

use crate::app::App;
use crate::bodies::Bodies;
use crate::config::Settings;
use crate::store::Store;
use madang_cache::ConfigError;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;

/// Routes of markets.
pub fn router() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
}

/// The system.
#[derive(Clone, Debug)]
pub struct Markets {
    _bodies: Bodies,
}

impl Markets {
    /// The system in `store`, its bodies among `bodies`.
    ///
    /// # Errors
    /// When the cache has parts of its names already, or its settings cannot work.
    pub fn new(_store: Store, bodies: Bodies, _settings: &Settings) -> Result<Self, ConfigError> {
        Ok(Self { _bodies: bodies })
    }
}
