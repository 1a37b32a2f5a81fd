//! The OpenAPI document, made from the code that serves it, and a page to read it without a network.

use axum::Router;
use axum::routing::get;
use http::{HeaderValue, header};
use utoipa::OpenApi;
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

/// The document as JSON.
pub fn json(document: &utoipa::openapi::OpenApi) -> String {
    document.to_pretty_json().unwrap_or_default()
}

/// `/openapi.json` and `/docs`.
pub(crate) fn router<S: Clone + Send + Sync + 'static>(
    document: &utoipa::openapi::OpenApi,
) -> Router<S> {
    let text = json(document);
    let json_type = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    // Unless told `none`, the page sends the document's address to a validator on the internet.
    let config = utoipa_swagger_ui::Config::from("/openapi.json").validator_url("none");
    let page: Router<S> = SwaggerUi::new("/docs").config(config).into();
    page.route("/openapi.json", get(async move || (json_type, text.clone())))
}
