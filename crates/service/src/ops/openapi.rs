//! The OpenAPI document, made from the code that serves it, and a page to read it without a network.

use crate::http::page_policy::protect;
use axum::Router;
use axum::response::Response as Answer;
use axum::routing::get;
use bytes::Bytes;
use http::{HeaderValue, header};
use utoipa::OpenApi;
use utoipa::openapi::Response;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_swagger_ui::SwaggerUi;

#[derive(OpenApi)]
#[openapi(
    info(title = "Madang", description = "Backend of a neighbourhood app. Errors are `application/problem+json` (RFC 9457); lengths are metres, coordinates WGS 84 degrees, times RFC 3339."),
    components(schemas(crate::http::problem::ProblemBody<'static>)),
    modifiers(&Bearer),
    tags((name = "accounts", description = "Register, log in, log out"), (name = "tracks", description = "Running tracks"), (name = "schedules", description = "Schedules and their places"), (name = "markets", description = "Traditional markets"), (name = "posts", description = "Second-hand goods"), (name = "articles", description = "Articles, comments and likes"), (name = "operations", description = "Health"))
)]
pub(crate) struct Document;

/// The token of a log-in, as the security scheme `bearer`.
struct Bearer;

impl utoipa::Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("JWT").build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(scheme));
    }
}

/// Writes down where the outcome may stay unknown: wherever something is written. In one place, because it
/// is one rule of the edge and not a decision of any route.
pub(crate) fn add_unknown_outcomes(document: &mut utoipa::openapi::OpenApi) {
    const DESCRIPTION: &str = "outcome-unknown: it may have been done, or may be done yet. With an \
        Idempotency-Key it comes with Retry-After, and the request may be sent again";
    for (path, item) in &mut document.paths.paths {
        // A log-in writes nothing.
        if path.ends_with("/login") {
            continue;
        }
        let writes = [&mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        for operation in writes.into_iter().flatten() {
            let unknown = Response::new(DESCRIPTION);
            operation.responses.responses.insert("504".to_owned(), unknown.into());
        }
    }
}

/// What a browser may do with the page that shows the document: run what comes from this server and ask this
/// server, as `/` may. Swagger UI also writes styles into its elements, which needs `unsafe-inline`.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    connect-src 'self'; img-src 'self' data:; font-src 'self' data:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// The document as JSON.
pub fn json(document: &utoipa::openapi::OpenApi) -> String {
    document.to_pretty_json().unwrap_or_default()
}

/// `/openapi.json` and `/docs`.
pub(crate) fn router<S: Clone + Send + Sync + 'static>(
    document: &utoipa::openapi::OpenApi,
) -> Router<S> {
    let text = Bytes::from(json(document));
    let json_type = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    // Unless told `none`, the page sends the document's address to a validator on the internet.
    let config = utoipa_swagger_ui::Config::from("/openapi.json").validator_url("none");
    let page: Router<S> = SwaggerUi::new("/docs").config(config).into();
    let page = page.layer(tower::util::MapResponseLayer::new(|mut response: Answer| {
        protect(response.headers_mut(), POLICY, false);
        response
    }));
    page.route("/openapi.json", get(async move || (json_type, text.clone())))
}
