//! Refusals, headers, parameters and examples that operations share.
//!
//! Most responses from 400 on come from the edge, an extractor or the store, and follow from an operation's inputs: a
//! body, a token, a key. So a handler lists only its own (404, 409, 429), and this module completes the document.
//! `scripts/contract` checks the server against it.

use crate::http::json::table::{FieldKind as _, Line};
use crate::http::page::{DEFAULT_LIMIT, MAX_LIMIT};
use crate::markets::LONGEST_SEARCH;
use crate::posts::{LONGEST_TOWN, Order};
use crate::tracks::NAME_CHARS;
use serde_json::{Map, Value, json};

pub(super) fn complete(document: &mut Value) {
    let schemas = document["components"]["schemas"].clone();
    let shared = REFUSALS.iter().map(|refusal| (refusal.name.to_owned(), refusal.response()));
    document["components"]["responses"] = Value::Object(shared.collect());
    let Some(paths) = document["paths"].as_object_mut() else { return };
    let items = paths.values_mut().filter_map(Value::as_object_mut);
    for (method, operation) in items.flat_map(Map::iter_mut) {
        describe_parameters(method, operation);
        add_body_examples(operation, &schemas);
        add_refusals(method, operation);
        describe_answers(operation);
    }
}

/// The inputs of an operation that determine its refusals.
struct Inputs {
    body: bool,
    query: bool,
    key: bool,
    token: bool,
    condition: bool,
    /// It reads or writes the store.
    store: bool,
    writes: bool,
}

impl Inputs {
    fn of(method: &str, operation: &Value) -> Self {
        let parameters = || operation["parameters"].as_array().into_iter().flatten();
        let named = |name: &str| parameters().any(|p| p["name"] == name);
        let secured = operation["security"].as_array().into_iter().flatten();
        Self {
            body: operation["requestBody"].is_object(),
            query: parameters().any(|p| p["in"] == "query"),
            key: named(KEY),
            token: secured.clone().any(|way| way["bearer"].is_array()),
            condition: named("If-Match"),
            store: operation["tags"] != json!(["operations"]),
            writes: method != "get",
        }
    }
}

/// A refusal that several operations share.
struct Refusal {
    status: &'static str,
    name: &'static str,
    description: &'static str,
    when: fn(&Inputs) -> bool,
}

const REFUSALS: &[Refusal] = &[
    Refusal {
        status: "400",
        name: "BadRequest",
        description: "The body, its framing or the `Idempotency-Key` cannot be read",
        when: |inputs| inputs.body || inputs.key,
    },
    Refusal {
        status: "401",
        name: "Unauthorized",
        description: "No token, an invalid or expired one, or its account was deleted",
        when: |inputs| inputs.token,
    },
    Refusal {
        status: "408",
        name: "BodyTimeout",
        description: "The body did not arrive in time; the connection is closed",
        when: |inputs| inputs.body,
    },
    Refusal {
        status: "409",
        name: "QuotaExceeded",
        description: "`quota-exceeded`: the account has as many as it may have (`limits.rows`)",
        when: |inputs| inputs.key,
    },
    Refusal {
        status: "412",
        name: "PreconditionFailed",
        description: "The condition in `If-Match` or `If-None-Match` is false; nothing was done",
        when: |inputs| inputs.condition,
    },
    Refusal {
        status: "413",
        name: "TooLarge",
        description: "The body is too large; the connection is closed",
        when: |inputs| inputs.body,
    },
    Refusal {
        status: "414",
        name: "TargetTooLong",
        description: "Path and query are longer than 8,192 bytes",
        when: |_| true,
    },
    Refusal {
        status: "415",
        name: "UnsupportedMediaType",
        description: "The body has an unsupported type, or is compressed",
        when: |inputs| inputs.body,
    },
    Refusal {
        status: "422",
        name: "Invalid",
        description: "Some values are not accepted: `errors` names each field or parameter. Or the \
            `Idempotency-Key` came with another request before",
        when: |inputs| inputs.body || inputs.query || inputs.key,
    },
    Refusal {
        status: "429",
        name: "RateLimited",
        description: "`rate-limited`: the user or the address exceeds `limits.*`; nothing was done. The \
            headers `RateLimit-Policy` and `RateLimit` name the limit",
        when: |inputs| inputs.store,
    },
    Refusal {
        status: "503",
        name: "Unavailable",
        description: "Too much is in progress: nothing was done",
        when: |inputs| inputs.store,
    },
    Refusal {
        status: "504",
        name: "OutcomeUnknown",
        description: "`outcome-unknown`: whether it was done is not known. With an `Idempotency-Key` it has a \
            `Retry-After`, and the request may be sent again",
        when: |inputs| inputs.store && inputs.writes,
    },
];

impl Refusal {
    fn response(&self) -> Value {
        let mut response = json!({ "description": self.description });
        make_problem(self.status, &mut response);
        response
    }
}

fn add_refusals(method: &str, operation: &mut Value) {
    let inputs = Inputs::of(method, operation);
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    for (status, response) in responses.iter_mut().filter(|(status, _)| status.as_str() >= "400") {
        make_problem(status, response);
    }
    for refusal in REFUSALS.iter().filter(|refusal| (refusal.when)(&inputs)) {
        let reference = format!("#/components/responses/{}", refusal.name);
        let shared = || json!({ "$ref": reference });
        responses.entry(refusal.status).or_insert_with(shared);
    }
    responses.sort_keys();
}

/// Describes a response as a problem, with its headers.
fn make_problem(status: &str, response: &mut Value) {
    let schema = json!({ "schema": { "$ref": "#/components/schemas/ProblemBody" } });
    response["content"] = json!({ "application/problem+json": schema });
    match status {
        "401" => add_header(response, "WWW-Authenticate", "Authentication scheme", text),
        "429" | "503" => {
            let seconds = || json!({ "type": "integer", "minimum": 1 });
            add_header(response, "Retry-After", "Seconds to wait", seconds);
        }
        _ => {}
    }
}

fn add_header(response: &mut Value, name: &str, description: &str, schema: fn() -> Value) {
    response["headers"][name] =
        json!({ "description": description, "required": true, "schema": schema() });
}

fn describe_answers(operation: &mut Value) {
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    if let Some(created) = responses.get_mut("201") {
        let description = "Location of the new item, or of the list that contains it";
        add_header(created, "Location", description, text);
    }
    if let Some(known) = responses.get_mut("304") {
        add_header(known, "ETag", "ETag of the client's copy", text);
        if let Some(found) = responses.get_mut("200") {
            add_header(found, "ETag", "Strong ETag of this body in this encoding", text);
        }
    }
}

const KEY: &str = "Idempotency-Key";
const MATCH: &str = "Perform the request only if the list contains the current ETag or is `*`";
const NONE_MATCH: &str = "Perform the request only if the list does not contain the current ETag";
const KNOWN: &str = "304 if the list contains the ETag of the answer or is `*`";

/// Sets the shared description of common parameters, and adds those that follow from the responses.
fn describe_parameters(method: &str, operation: &mut Value) {
    let id = operation["operationId"].clone();
    let revalidates = operation["responses"]["304"].is_object();
    if !operation["parameters"].is_array() {
        operation["parameters"] = json!([]);
    }
    let Some(parameters) = operation["parameters"].as_array_mut() else { return };
    for parameter in parameters.iter_mut() {
        let name = parameter["name"].as_str().unwrap_or("");
        let full = format!("{}/{name}", id.as_str().unwrap_or(""));
        let found = PARAMETERS.iter().find(|(of, ..)| *of == full || *of == name);
        let Some((_, description, schema, example)) = found else { continue };
        parameter["schema"] = schema();
        let first = parameter["schema"]["enum"].get(0).cloned();
        if let Some(example) = example.map(|example| example()).or(first) {
            parameter["example"] = example;
        }
        if !description.is_empty() {
            parameter["description"] = (*description).into();
        }
    }
    let conditions: &[(&str, &str)] = match method {
        "patch" | "delete" => &[("If-Match", MATCH), ("If-None-Match", NONE_MATCH)],
        "get" if revalidates => &[("If-None-Match", KNOWN)],
        _ => &[],
    };
    for (name, description) in conditions {
        parameters.push(json!({
            "name": name, "in": "header", "description": description, "required": false,
            "schema": { "type": "string" }, "example": "\"6f1c2b0e9a7d4c3b2a190807-br\"",
        }));
    }
    if parameters.is_empty() {
        operation.as_object_mut().map(|operation| operation.remove("parameters"));
    }
}

/// Name, or `operation/name` where an operation differs; description, unless the route has one; schema; example, by
/// default the first word of an enumeration.
type Parameter = (&'static str, &'static str, fn() -> Value, Option<fn() -> Value>);

const PARAMETERS: &[Parameter] = &[
    (
        "limit",
        "Maximum number of items",
        || json!({ "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT }),
        Some(|| json!(DEFAULT_LIMIT)),
    ),
    (
        "cursor",
        "`nextCursor` of the previous page of the same listing",
        || pattern("^[0-9a-f]{48}$"),
        None,
    ),
    (
        KEY,
        "A word of the client's own choice, bare or in double quotes: sent again with the same body, \
            the first answer comes back, marked `Idempotent-Replayed: true`",
        key,
        Some(|| json!("8e03978e-40d5-43e8-bc93-6894a57f9324")),
    ),
    ("near", "", position, Some(|| json!("37.764,128.9"))),
    ("id", "", id, Some(|| json!(1))),
    ("commentId", "", id, Some(|| json!(1))),
    ("createTrack/name", "", || Line(NAME_CHARS).schema(), Some(|| json!("한강 아침 달리기"))),
    ("getTrack/detail", "", || words(&["full", "high", "medium", "low"]), None),
    ("getTrack/encoding", "", || words(&["points", "polyline"]), None),
    ("listTracks/sort", "", || words(&["length"]), None),
    ("listArticles/q", "", search, Some(|| json!("빵집"))),
    ("listArticles/sort", "", || words(&["newest", "likes"]), None),
    ("listPosts/q", "", search, Some(|| json!("자전거"))),
    ("listPosts/sort", "", || words(&Order::WORDS.map(|(word, _)| word)), None),
    ("listPosts/state", "", text, Some(|| json!("서울특별시"))),
    ("listPosts/city", "", text, Some(|| json!("마포구"))),
    ("listPosts/town", "", || Line(1..=LONGEST_TOWN).schema(), Some(|| json!("망원동"))),
    ("listPosts/category", "", text, Some(|| json!("sports"))),
    ("listMarkets/sort", "", || words(&["name", "views", "distance"]), None),
    ("listMarkets/q", "", search, Some(|| json!("중앙시장"))),
    ("listMarkets/goods", "", search, Some(|| json!("수산물"))),
    ("listMarkets/region", "", text, Some(|| json!("강원도"))),
    ("listMarkets/type", "", kinds, Some(|| json!("상설장"))),
];

fn text() -> Value {
    json!({ "type": "string" })
}

fn id() -> Value {
    json!({ "type": "integer", "format": "int64" })
}

fn pattern(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": pattern })
}

fn position() -> Value {
    let lat = r"-?(90(\.0{1,9})?|[1-8]?[0-9](\.[0-9]{1,9})?)";
    let lon = r"-?(180(\.0{1,9})?|(1[0-7][0-9]|[1-9]?[0-9])(\.[0-9]{1,9})?)";
    pattern(&format!("^{lat},{lon}$"))
}

fn kinds() -> Value {
    let kind = "(상설장|5일장|3일장)";
    pattern(&format!("^({kind}([+ ]{kind})*)?$"))
}

fn key() -> Value {
    let bare = "[!#-~]{1,255}";
    let quoted = r#""([ !#-\[\]-~]|\\["\\]){1,255}""#;
    pattern(&format!("^({bare}|{quoted})$"))
}

fn words(words: &[&str]) -> Value {
    json!({ "type": "string", "enum": words })
}

/// Words to search for: no control characters except white space.
fn search() -> Value {
    let pattern = r"^[^\u0000-\u0008\u000E-\u001F\u007F-\u0084\u0086-\u009F]*$";
    json!({ "type": "string", "maxLength": LONGEST_SEARCH, "pattern": pattern })
}

/// Also puts the example of a body's type beside the body, where tools look for it.
fn add_body_examples(operation: &mut Value, schemas: &Value) {
    let Some(content) =
        operation.pointer_mut("/requestBody/content").and_then(Value::as_object_mut)
    else {
        return;
    };
    for (kind, body) in content {
        let name = body["schema"]["$ref"].as_str().and_then(|r| r.rsplit('/').next());
        let example = match kind.as_str() {
            "application/gpx+xml" => json!(GPX),
            "application/geo+json" => serde_json::from_str(GEO_JSON).unwrap_or_default(),
            _ => name.map_or(Value::Null, |name| schemas[name]["examples"][0].clone()),
        };
        body["example"] = example;
    }
}

const GPX: &str = r#"<gpx version="1.1" creator="x" xmlns="http://www.topografix.com/GPX/1/1"><trk><name>한강</name><trkseg><trkpt lat="37.5172" lon="126.9361"/><trkpt lat="37.5181" lon="126.9402"/></trkseg></trk></gpx>"#;
const GEO_JSON: &str = r#"{"type":"Feature","properties":{"name":"한강"},"geometry":{"type":"LineString","coordinates":[[126.9361,37.5172],[126.9402,37.5181]]}}"#;
