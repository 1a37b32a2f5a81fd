//! The OpenAPI document, generated from the code that serves it, and a page that shows it offline.

use super::contract;
use crate::app::App;
use crate::http::Problem;
use crate::http::page_policy::protect;
use axum::Router;
use axum::response::{IntoResponse as _, Response as Answer};
use axum::routing::get;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_swagger_ui::SwaggerUi;

#[derive(OpenApi)]
#[openapi(
    info(title = "Madang", description = "Backend of a neighbourhood app. Lengths are metres, coordinates WGS 84 degrees, times RFC 3339.\n\nErrors are `application/problem+json` (RFC 9457). Besides those of each operation: 405 with `Allow` for a method that a path does not know, 431 for too large a head, and 400, 408 or 413 for a body that is broken, late or too large where none is asked for. Nothing is answered 406: whoever accepts none of the formats of a resource gets the first of them.\n\n`If-Match` and `If-None-Match` are honoured by PATCH and DELETE: 412, and nothing is done. A tag matches by its version, the part before the first `.` or `-`: so the tag of any encoding of a resource matches, and counts of likes, comments or views, which do not change the resource, make no difference. What has no representation of its own (a comment, a like) has no tags: there only `If-Match: *` holds. Both are ignored by POST and PUT, whose targets, lists and likes, have no state that a client could have read before and that the request would overwrite."),
    components(schemas(crate::http::problem::ProblemBody<'static>)),
    modifiers(&Bearer),
    tags((name = "accounts", description = "Register, log in, log out"), (name = "tracks", description = "Running tracks"), (name = "schedules", description = "Schedules and their places"), (name = "markets", description = "Traditional markets"), (name = "posts", description = "Second-hand goods"), (name = "articles", description = "Articles, comments and likes"), (name = "operations", description = "Health"))
)]
struct Described;

/// The token of a log-in as the security scheme `bearer`.
struct Bearer;

impl utoipa::Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("JWT").build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(scheme));
    }
}

/// Content security policy of the page: scripts, styles and requests of this server only. Swagger UI also sets styles
/// on its elements, which needs `unsafe-inline`.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    connect-src 'self'; img-src 'self' data:; font-src 'self' data:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// Routes with their descriptions.
///
/// The document would silently merge two schemas of one name, so they are compared before.
pub(crate) struct Api<S = Arc<App>> {
    router: OpenApiRouter<S>,
    schemas: BTreeMap<String, RefOr<Schema>>,
    collisions: Vec<String>,
}

impl<S: Clone + Send + Sync + 'static> Api<S> {
    pub(crate) fn new() -> Self {
        let (router, schemas) = (OpenApiRouter::new(), BTreeMap::new());
        Self { router, schemas, collisions: Vec::new() }
    }

    /// No routes, and the general part of the document.
    pub(crate) fn documented() -> Self {
        let document = Described::openapi();
        let schemas = document.components.iter().flat_map(|all| all.schemas.clone()).collect();
        Self { router: OpenApiRouter::with_openapi(document), schemas, collisions: Vec::new() }
    }

    /// Adds routes of one path: `routes!(list, create)`.
    pub(crate) fn routes(mut self, routes: UtoipaMethodRouter<S>) -> Self {
        for (name, schema) in &routes.0 {
            self.has(name, schema);
        }
        Self { router: self.router.routes(routes), ..self }
    }

    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.collisions.extend(other.collisions);
        for (name, schema) in &other.schemas {
            self.has(name, schema);
        }
        Self { router: self.router.merge(other.router), ..self }
    }

    fn has(&mut self, name: &str, schema: &RefOr<Schema>) {
        match self.schemas.get(name) {
            Some(known) if known != schema => self.collisions.push(name.to_owned()),
            Some(_) => {}
            None => drop(self.schemas.insert(name.to_owned(), schema.clone())),
        }
    }

    pub(crate) fn split(self) -> (Router<S>, Document) {
        debug_assert!(self.collisions.is_empty(), "schemas of one name: {:?}", self.collisions);
        let (router, document) = self.router.split_for_parts();
        // Maps with names as their keys: can be written.
        let mut document = serde_json::to_value(document).unwrap_or_default();
        contract::complete(&mut document);
        (router, Document(document))
    }
}

pub(crate) struct Document(serde_json::Value);

impl Document {
    pub(crate) fn json(&self) -> String {
        format!("{:#}", self.0)
    }

    /// Paths of all routes, with parameters in braces.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &str> {
        self.0["paths"].as_object().into_iter().flat_map(|paths| paths.keys().map(String::as_str))
    }
}

/// `/openapi.json` and `/docs`.
pub(crate) fn router<S: Clone + Send + Sync + 'static>(document: &Document) -> Router<S> {
    let text = Bytes::from(document.json());
    let json_type = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    // By default the page sends the document's URL to a validator on the internet.
    let config = utoipa_swagger_ui::Config::from("/openapi.json").validator_url("none");
    let page: Router<S> = SwaggerUi::new("/docs").config(config).into();
    let page = page.layer(tower::util::MapResponseLayer::new(|mut response: Answer| {
        // Swagger UI sends an empty 404.
        if response.status() == StatusCode::NOT_FOUND {
            response = Problem::not_found("there is no such file under /docs").into_response();
        }
        protect(response.headers_mut(), POLICY, false);
        response
    }));
    page.route("/openapi.json", get(async move || (json_type, text.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use utoipa_axum::routes;

    mod one {
        #[derive(utoipa::ToSchema, serde::Serialize)]
        pub(super) struct Made {
            id: i64,
        }

        #[utoipa::path(get, path = "/one", responses((status = 200, body = Made)))]
        pub(super) async fn one() {}
    }

    mod two {
        #[derive(utoipa::ToSchema, serde::Serialize)]
        pub(super) struct Made {
            name: String,
        }

        #[utoipa::path(get, path = "/two", responses((status = 200, body = Made)))]
        pub(super) async fn two() {}

        #[utoipa::path(post, path = "/two", responses((status = 200, body = super::one::Made)))]
        pub(super) async fn other() {}
    }

    #[test]
    fn two_schemas_of_one_name_are_noticed() {
        let one = || Api::<()>::new().routes(routes!(one::one));
        assert_eq!(one().merge(one_again()).collisions, [""; 0], "one type may be used often");
        let apart = one().merge(Api::new().routes(routes!(two::two)));
        assert_eq!(apart.collisions, ["Made"]);
        let together = Api::<()>::new().routes(routes!(two::two, two::other));
        assert_eq!(together.collisions, ["Made"], "of one path");
    }

    fn one_again() -> Api<()> {
        Api::new().routes(routes!(two::other))
    }

    #[test]
    fn every_schema_of_the_document_has_a_name_of_its_own() {
        assert_eq!(crate::app::api().collisions, [""; 0]);
    }
}
