//! The home page at `/`: what a person sees first who opens the address in a browser.
//!
//! Plain HTML, CSS and JavaScript modules, compiled in: no framework, no build step, nothing fetched from
//! another host. It uses the API as any other client does; its own are only `/home/…`: the files it is made
//! of, an outline of the provinces, and the figures of the last minute (`figures.rs`). Nothing in it
//! depends on who asks.

mod figures;

use crate::app::App;
use crate::config::Settings;
use crate::http::Problem;
use crate::http::body::{Compress, finish, respond};
use crate::http::negotiate::Encodings;
use crate::http::page_policy::protect;
use crate::ops::metrics::ServerMetrics;
use crate::store::{Pool, StoreError};
use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery};
use axum::response::Response;
use axum::routing::get;
use figures::Sampler;
use http::HeaderMap;
use madang_cache::Value;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Where the figures of the last minute are.
const FIGURES: &str = "/home/figures";
/// Where the files are that the page is made of.
const PARTS: &str = "/home/{file}";

/// One file of the page.
struct File {
    name: &'static str,
    content_type: &'static str,
    content: &'static [u8],
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! file {
    ($name:literal, $content_type:expr, $file:literal) => {
        File { name: $name, content_type: $content_type, content: include_bytes!($file) }
    };
}

static FILES: [File; 12] = [
    // The page itself, at `/`.
    file!("", "text/html; charset=utf-8", "assets/index.html"),
    file!("style.css", "text/css; charset=utf-8", "assets/style.css"),
    file!("icon.svg", "image/svg+xml", "assets/icon.svg"),
    file!("main.js", SCRIPT, "assets/main.js"),
    file!("page.js", SCRIPT, "assets/page.js"),
    file!("trails.js", SCRIPT, "assets/trails.js"),
    file!("path.js", SCRIPT, "assets/path.js"),
    file!("draw.js", SCRIPT, "assets/draw.js"),
    file!("markets.js", SCRIPT, "assets/markets.js"),
    file!("korea.js", SCRIPT, "assets/korea.js"),
    file!("live.js", SCRIPT, "assets/live.js"),
    file!(
        "provinces.geojson",
        "application/geo+json",
        "../../../../data/regions/sido_2018_outlines.geojson"
    ),
];

/// What a browser may do with the page: run and show what comes from this server, ask this server, and
/// nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The page, ready to be served; ends its sampling when dropped.
pub(crate) struct Home {
    sampler: Sampler,
    files: Arc<Files>,
}

impl Home {
    /// The page with the figures of `metrics`, unless it is switched off.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub(crate) fn start(
        settings: &Settings,
        app: &App,
        metrics: &Arc<ServerMetrics>,
    ) -> std::io::Result<Option<Home>> {
        if !settings.home.page {
            return Ok(None);
        }
        metrics.add_route("/");
        metrics.add_route(PARTS);
        metrics.add_route_apart(FIGURES);
        let files = Arc::new(Files {
            made: Default::default(),
            compute: Arc::clone(&app.compute),
            compression: settings.compression,
        });
        let latencies = Arc::clone(metrics.latencies());
        Ok(Some(Home { sampler: Sampler::start(latencies, app.cache.clone())?, files }))
    }

    /// Its routes.
    pub(crate) fn router<S: Clone + Send + Sync + 'static>(&self) -> Router<S> {
        let samples = self.sampler.samples();
        let figures = get(async move |RawQuery(query): RawQuery| {
            figures::answer(&samples, query.as_deref().unwrap_or(""))
        });
        let files = Arc::clone(&self.files);
        let page = get(async move |headers: HeaderMap| files.answer("", &headers).await);
        let files = Arc::clone(&self.files);
        let part =
            get(async move |name: Result<Path<String>, PathRejection>, headers: HeaderMap| {
                // What is no text is no file either.
                files.answer(name.as_ref().map_or("?", |name| name.as_str()), &headers).await
            });
        Router::new().route("/", page).route(PARTS, part).route(FIGURES, figures)
    }
}

/// The files of the page, each compressed when it is first asked for.
struct Files {
    made: [OnceCell<Value>; FILES.len()],
    compute: Arc<Pool<()>>,
    compression: bool,
}

impl Files {
    async fn answer(&self, name: &str, headers: &HeaderMap) -> Result<Response, Problem> {
        let found = FILES.iter().zip(&self.made).find(|(file, _)| file.name == name);
        let (file, made) =
            found.ok_or_else(|| Problem::not_found("the home page has no file of this name"))?;
        let value = made.get_or_try_init(|| self.make(file)).await?;
        let mut response = respond(value, headers);
        protect(response.headers_mut(), POLICY, true);
        Ok(response)
    }

    async fn make(&self, file: &'static File) -> Result<Value, Problem> {
        // Nothing bounds what is compiled in.
        let compress = Compress::plan(self.compression, Some(usize::MAX), Encodings::default());
        let made = self
            .compute
            .run(move |()| finish(file.content.to_vec(), file.content_type, compress))
            .await;
        made.map_err(|error| StoreError::from(error).into())
    }
}

/// Without the page there is nothing at `/`.
pub(crate) fn nothing<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let problem = get(async || Problem::not_found("the API is at /v1, its description at /docs"));
    Router::new().route("/", problem)
}
