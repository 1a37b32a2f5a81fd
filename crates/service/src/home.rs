//! The home page at `/`, and the operator's view (docs/decisions/0046-home-page.md).
//!
//! Plain HTML, CSS and JavaScript modules, compiled in. Their routes are only `/home/…`: files, an outline of the
//! provinces, the figures of the last minute (`figures.rs`), and those of the operator's view (`operator.rs`), which
//! need a token.

mod figures;
mod operator;
mod sampler;

use crate::app::App;
use crate::config::Settings;
use crate::http::body::{Compress, finish, respond};
use crate::http::negotiate::Encodings;
use crate::http::page_policy::protect;
use crate::http::{PathId, Problem};
use crate::ops::last_errors::LastErrors;
use crate::ops::metrics::ServerMetrics;
use crate::store::{Pool, StoreError};
use axum::Router;
use axum::extract::RawQuery;
use axum::response::Response;
use axum::routing::get;
use figures::{Minute, Samples};
use http::HeaderMap;
use madang_cache::Value;
use operator::{View, Watch};
use sampler::Sampler;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Figures of the last minute.
const FIGURES: &str = "/home/figures";
/// Figures of the operator's view.
const OPERATOR_FIGURES: &str = "/home/operator/figures";
/// Files of the pages.
const PARTS: &str = "/home/{file}";

/// The page that a file belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pages {
    Home,
    Operator,
    Both,
}

struct File {
    pages: Pages,
    name: &'static str,
    content_type: &'static str,
    content: &'static [u8],
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! file {
    ($pages:ident, $name:literal, $content_type:expr, $file:literal) => {
        File {
            pages: Pages::$pages,
            name: $name,
            content_type: $content_type,
            content: include_bytes!($file),
        }
    };
}

static FILES: [File; 15] = [
    // The page itself, at `/`.
    file!(Home, "", "text/html; charset=utf-8", "home/assets/index.html"),
    file!(Both, "style.css", "text/css; charset=utf-8", "home/assets/style.css"),
    file!(Both, "icon.svg", "image/svg+xml", "home/assets/icon.svg"),
    file!(Home, "main.js", SCRIPT, "home/assets/main.js"),
    file!(Both, "page.js", SCRIPT, "home/assets/page.js"),
    file!(Home, "trails.js", SCRIPT, "home/assets/trails.js"),
    file!(Home, "path.js", SCRIPT, "home/assets/path.js"),
    file!(Home, "draw.js", SCRIPT, "home/assets/draw.js"),
    file!(Home, "markets.js", SCRIPT, "home/assets/markets.js"),
    file!(Home, "korea.js", SCRIPT, "home/assets/korea.js"),
    file!(Home, "live.js", SCRIPT, "home/assets/live.js"),
    file!(
        Home,
        "provinces.geojson",
        "application/geo+json",
        "../../../data/regions/sido_2018_outlines.geojson"
    ),
    // The operator's view.
    file!(Operator, "operator", "text/html; charset=utf-8", "home/assets/operator.html"),
    file!(Operator, "operator.css", "text/css; charset=utf-8", "home/assets/operator.css"),
    file!(Operator, "operator.js", SCRIPT, "home/assets/operator.js"),
];

/// Content security policy of the pages: scripts, styles and requests of this server only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The pages, and the sampler of their figures, which ends on drop.
pub(crate) struct Home {
    /// Figures of the home page; `None` = it is off.
    samples: Option<Arc<Samples>>,
    /// The operator's view; `None` = it has no token.
    view: Option<Arc<View>>,
    files: Arc<Files>,
    _sampler: Sampler,
}

impl Home {
    /// Starts the configured pages with the figures of `metrics`; `None` when there are none.
    pub(crate) fn start(
        settings: &Settings,
        app: &Arc<App>,
        metrics: &Arc<ServerMetrics>,
    ) -> std::io::Result<Option<Home>> {
        let minute = || Minute::new(Arc::clone(metrics), app.cache.clone());
        let mut minute = settings.home.page.then(minute);
        let samples = minute.as_ref().map(Minute::samples);
        let token = settings.home.operator_token.clone();
        let view = token.map(|token| Arc::new(View::new(token, app)));
        if samples.is_none() && view.is_none() {
            return Ok(None);
        }
        metrics.add_route(PARTS, true);
        if samples.is_some() {
            metrics.add_route("/", true);
            metrics.add_route(FIGURES, false);
        }
        let mut watch = view.as_ref().map(|view| {
            metrics.add_route(OPERATOR_FIGURES, false);
            Watch::new(Arc::clone(view), Arc::clone(app), Arc::clone(metrics))
        });
        let sampler = Sampler::start(move || {
            minute.iter_mut().for_each(Minute::tick);
            watch.iter_mut().for_each(Watch::tick);
        })?;
        let files = Arc::new(Files {
            made: Default::default(),
            home: samples.is_some(),
            operator: view.is_some(),
            compute: Arc::clone(&app.compute),
            compression: settings.compression,
        });
        Ok(Some(Home { samples, view, files, _sampler: sampler }))
    }

    /// Where the edge adds errors, if there is an operator's view.
    pub(crate) fn errors(&self) -> Option<Arc<LastErrors>> {
        self.view.as_ref().map(|view| view.errors())
    }

    pub(crate) fn router<S: Clone + Send + Sync + 'static>(&self) -> Router<S> {
        let files = Arc::clone(&self.files);
        let part = get(async move |name: PathId<String>, headers: HeaderMap| {
            files.answer(&name.or(no_such_file)?, &headers).await
        });
        let mut router = Router::new().route(PARTS, part);
        if let Some(view) = self.view.clone() {
            let figures = get(async move |RawQuery(query): RawQuery, headers: HeaderMap| {
                view.answer(&headers, query.as_deref().unwrap_or("")).await
            });
            router = router.route(OPERATOR_FIGURES, figures);
        }
        let Some(samples) = self.samples.clone() else { return router.merge(nothing()) };
        let figures = get(async move |RawQuery(query): RawQuery| {
            figures::answer(&samples, query.as_deref().unwrap_or(""))
        });
        let files = Arc::clone(&self.files);
        let page = get(async move |headers: HeaderMap| files.answer("", &headers).await);
        router.route("/", page).route(FIGURES, figures)
    }
}

/// The files of the pages, each compressed at its first request.
struct Files {
    made: [OnceCell<Value>; FILES.len()],
    /// True if the home page is on.
    home: bool,
    /// True if the operator's view is on.
    operator: bool,
    compute: Arc<Pool<()>>,
    compression: bool,
}

impl Files {
    async fn answer(&self, name: &str, headers: &HeaderMap) -> Result<Response, Problem> {
        let is_shown = |pages| {
            pages == Pages::Both || if pages == Pages::Home { self.home } else { self.operator }
        };
        let found = FILES
            .iter()
            .zip(&self.made)
            .find(|(file, _)| file.name == name && is_shown(file.pages));
        let (file, made) = found.ok_or_else(no_such_file)?;
        let value = made.get_or_try_init(|| self.make(file)).await?;
        let mut response = respond(value, headers);
        protect(response.headers_mut(), POLICY, true);
        Ok(response)
    }

    async fn make(&self, file: &'static File) -> Result<Value, Problem> {
        // The size of compiled-in files needs no bound.
        let compress = Compress::plan(self.compression, Some(usize::MAX), Encodings::default());
        let made = self
            .compute
            .run(move |()| finish(file.content.to_vec(), file.content_type, compress))
            .await;
        made.map_err(|error| StoreError::from(error).into())
    }
}

fn no_such_file() -> Problem {
    Problem::not_found("the home page has no file of this name")
}

/// `/` without the home page.
pub(crate) fn nothing<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let problem = get(async || Problem::not_found("the API is at /v1, its description at /docs"));
    Router::new().route("/", problem)
}
