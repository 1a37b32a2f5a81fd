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
use crate::ops::metrics::ServerMetrics;
use crate::store::{Pool, StoreError};
use axum::Router;
use axum::extract::RawQuery;
use axum::response::Response;
use axum::routing::get;
use figures::Sampler;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use madang_cache::Value;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Where the figures of the last minute are.
const FIGURES: &str = "/home/figures";

/// One file of the page.
struct File {
    path: &'static str,
    content_type: &'static str,
    content: &'static [u8],
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! file {
    ($path:literal, $content_type:expr, $file:literal) => {
        File { path: $path, content_type: $content_type, content: include_bytes!($file) }
    };
}

static FILES: &[File] = &[
    file!("/", "text/html; charset=utf-8", "assets/index.html"),
    file!("/home/style.css", "text/css; charset=utf-8", "assets/style.css"),
    file!("/home/icon.svg", "image/svg+xml", "assets/icon.svg"),
    file!("/home/main.js", SCRIPT, "assets/main.js"),
    file!("/home/page.js", SCRIPT, "assets/page.js"),
    file!("/home/trails.js", SCRIPT, "assets/trails.js"),
    file!("/home/path.js", SCRIPT, "assets/path.js"),
    file!("/home/draw.js", SCRIPT, "assets/draw.js"),
    file!("/home/markets.js", SCRIPT, "assets/markets.js"),
    file!("/home/korea.js", SCRIPT, "assets/korea.js"),
    file!("/home/live.js", SCRIPT, "assets/live.js"),
    file!(
        "/home/provinces.geojson",
        "application/geo+json",
        "../../../../data/regions/sido_2018_outlines.geojson"
    ),
];

/// What a browser may do with the page: run and show what comes from this server, ask this server, and
/// nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("permissions-policy"), "geolocation=(self), camera=(), microphone=()"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The page, ready to be served; ends its sampling when dropped.
pub(crate) struct Home {
    sampler: Sampler,
    compute: Arc<Pool<()>>,
    compression: bool,
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
        FILES.iter().for_each(|file| metrics.add_route(file.path));
        metrics.add_route_apart(FIGURES);
        Ok(Some(Home {
            sampler: Sampler::start(Arc::clone(metrics.latencies()), app.cache.clone())?,
            compute: Arc::clone(&app.compute),
            compression: settings.compression,
        }))
    }

    /// Its routes.
    pub(crate) fn router<S: Clone + Send + Sync + 'static>(&self) -> Router<S> {
        let samples = self.sampler.samples();
        let figures = get(async move |RawQuery(query): RawQuery| {
            figures::answer(&samples, query.as_deref().unwrap_or(""))
        });
        FILES.iter().fold(Router::new().route(FIGURES, figures), |router, file| {
            let made = Arc::new(OnceCell::new());
            let (compute, compression) = (Arc::clone(&self.compute), self.compression);
            let answer = get(async move |headers: HeaderMap| {
                let value = made.get_or_try_init(|| make(file, &compute, compression)).await?;
                Ok::<_, Problem>(file_answer(value, &headers))
            });
            router.route(file.path, answer)
        })
    }
}

/// Without the page there is nothing at `/`.
pub(crate) fn nothing<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let problem = || Problem::not_found("the API is under /v1, its description under /docs");
    Router::new().route("/", get(async move || problem()))
}

/// Compresses a file, once, when it is first asked for.
async fn make(
    file: &'static File,
    compute: &Pool<()>,
    compression: bool,
) -> Result<Value, Problem> {
    // Nothing bounds what is compiled in.
    let compress = Compress::plan(compression, Some(usize::MAX), Encodings::default());
    let made = compute.run(move |()| finish(file.content.to_vec(), file.content_type, compress));
    made.await.map_err(|error| StoreError::from(error).into())
}

fn file_answer(value: &Value, request: &HeaderMap) -> Response {
    let mut response = respond(value, request);
    for (name, text) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(text));
    }
    response
}
