//! The description of the API and the page that shows it.

use crate::harness::browser::Page;
use crate::harness::{Madang, Setup};
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn the_served_description_is_the_printed_one() {
    let printed = Madang::new(["openapi"]).succeeds().stdout;
    let server = Setup::new().start();
    let served = server.get("/openapi.json");
    assert_eq!(served.status, 200);
    assert_eq!(served.header("content-type"), Some("application/json"));
    assert_eq!(served.text().trim(), printed.trim());
}

fn document() -> Value {
    serde_json::from_str(&Madang::new(["openapi"]).succeeds().stdout).unwrap()
}

#[test]
fn it_is_openapi_3_1_with_every_route() {
    let document = document();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1."));
    for field in ["title", "version"] {
        assert!(document["info"][field].is_string());
    }
    let routes: BTreeSet<&str> =
        document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    for route in ["/v1/tracks", "/v1/tracks/{id}", "/health/live", "/health/ready"] {
        assert!(routes.contains(route), "{route} is not described");
    }
    let server = Setup::new().start();
    for route in routes {
        let answer = server.get(&route.replace("{id}", "1"));
        let known = answer.status != 404
            || !answer.json()["detail"].as_str().unwrap().contains("nothing under this path");
        assert!(known, "{route} is described but not served");
    }
}

#[test]
fn an_operation_that_needs_a_token_says_so() {
    let document = document();
    assert_eq!(document["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
    for (route, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let needs = operation["responses"]["401"].is_object() && !route.ends_with("/login");
            // Where a token is welcome but not needed, the other choice is to send none.
            let choices = operation["security"].as_array().cloned().unwrap_or_default();
            let says = choices.iter().any(|choice| choice["bearer"].is_array());
            assert_eq!(says, needs, "{method} {route}");
        }
    }
}

#[test]
fn every_operation_says_what_it_takes_and_answers() {
    let document = document();
    let mut names = BTreeSet::new();
    for (route, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().expect("an operationId");
            assert!(names.insert(id.to_owned()), "{id} twice");
            assert!(operation["summary"].is_string(), "{method} {route} without a summary");
            let responses = operation["responses"].as_object().unwrap();
            let good = responses.keys().any(|status| status.starts_with('2'));
            assert!(good, "{method} {route} never succeeds");
            let empty = Vec::new();
            let parameters = operation["parameters"].as_array().unwrap_or(&empty);
            for name in route.split('{').skip(1).map(|part| part.split('}').next().unwrap()) {
                let there = parameters
                    .iter()
                    .any(|p| p["name"] == name && p["in"] == "path" && p["required"] == true);
                assert!(there, "{route} does not describe {name}");
            }
        }
    }
}

/// Every operation of the document with its method and route.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    paths
        .flat_map(|(route, item)| {
            let operations = item.as_object().unwrap().iter();
            operations.map(move |(method, operation)| (format!("{method} {route}"), operation))
        })
        .collect()
}

#[test]
fn the_answer_of_a_create_is_described_as_it_is() {
    let document = document();
    for (operation, members) in [
        ("/v1/articles", &["id"][..]),
        ("/v1/articles/{id}/comments", &["id"]),
        ("/v1/posts", &["id"]),
        ("/v1/schedules", &["id", "scheduleId"]),
    ] {
        let created = &document["paths"][operation]["post"]["responses"]["201"];
        let reference = created["content"]["application/json"]["schema"]["$ref"].as_str().unwrap();
        let schema = document.pointer(reference.strip_prefix('#').unwrap()).unwrap();
        let described: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(described, members, "{operation}");
    }
}

#[test]
fn refusals_are_documented_where_they_occur() {
    let document = document();
    for (name, operation) in operations(&document) {
        let has = |status: &str| operation["responses"][status].is_object();
        let (writes, api) = (!name.starts_with("get "), name.contains("/v1/"));
        let body = operation["requestBody"].is_object();
        for status in ["400", "408", "413", "415", "422"] {
            assert!(has(status) || !body, "{name}: {status}");
        }
        assert_eq!(has("412"), name.starts_with("patch ") || name.starts_with("delete "), "{name}");
        assert_eq!(has("504"), writes && api, "{name}");
        assert!(has("503") || !api, "{name}");
        // Occur for paths and methods that are not described.
        assert!(!has("405") && !has("406"), "{name}");
        for (status, response) in operation["responses"].as_object().unwrap() {
            if status.as_str() < "400" {
                continue;
            }
            let response = match response["$ref"].as_str() {
                Some(reference) => document.pointer(&reference[1..]).unwrap(),
                None => response,
            };
            let content = response["content"].as_object().unwrap();
            let kinds: Vec<_> = content.keys().collect();
            assert_eq!(kinds, ["application/problem+json"], "{name}: {status}");
            let waits = ["429", "503"].contains(&status.as_str());
            assert_eq!(response["headers"]["Retry-After"].is_object(), waits, "{name}: {status}");
        }
    }
}

#[test]
fn every_operation_shows_an_example_of_its_request() {
    for (name, operation) in operations(&document()) {
        if let Some(content) = operation["requestBody"]["content"].as_object() {
            for (kind, body) in content {
                assert!(!body["example"].is_null(), "{name}: {kind}");
            }
        }
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            // A cursor is what an answer gave; words to choose from are listed.
            let shown = !parameter["example"].is_null()
                || parameter["schema"]["enum"].is_array()
                || parameter["name"] == "cursor";
            assert!(shown, "{name}: {parameter}");
        }
    }
}

#[test]
fn every_reference_in_it_leads_somewhere() {
    let document = document();
    let mut references = Vec::new();
    collect(&document, &mut references);
    assert!(!references.is_empty());
    for reference in references {
        let pointer = reference.strip_prefix('#').expect("a reference within the document");
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}

fn collect(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                into.push(reference.to_owned());
            }
            fields.values().for_each(|field| collect(field, into));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, into)),
        _ => {}
    }
}

#[test]
fn every_write_says_that_its_outcome_may_stay_unknown_and_no_read_does() {
    for (route, item) in document()["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let writes = method != "get";
            assert_eq!(operation["responses"]["504"].is_object(), writes, "{method} {route}");
        }
    }
}

/// What a page asks a browser to fetch: the values of `src` and `href`.
fn fetched(page: &str) -> Vec<String> {
    ["src=\"", "href=\""]
        .iter()
        .flat_map(|attribute| page.split(attribute).skip(1))
        .map(|rest| rest.split('"').next().unwrap().to_owned())
        .collect()
}

#[test]
fn the_page_and_everything_it_fetches_come_from_this_server() {
    let server = Setup::new().start();
    let moved = server.get("/docs");
    let page = match moved.status {
        200 => moved,
        301..=308 => server.get(moved.header("location").unwrap()),
        other => panic!("{other}"),
    };
    assert_eq!(page.status, 200);
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    let mut assets = fetched(&page.text());
    assert!(assets.len() >= 3, "{assets:?}");
    while let Some(asset) = assets.pop() {
        assert!(!asset.contains("//"), "{asset} is of another host");
        let path = format!("/docs/{}", asset.trim_start_matches("./"));
        let answer = server.get(&path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(!answer.body.is_empty(), "{path}");
        for name in ["content-security-policy", "referrer-policy", "permissions-policy"] {
            assert!(answer.header(name).is_some(), "{path} without {name}");
        }
        if path.ends_with(".css") {
            let text = answer.text();
            assert!(!text.contains("url(http") && !text.contains("@import"), "{path}");
        }
    }
}

#[test]
fn the_page_asks_no_other_host_to_check_the_description() {
    // Unless told otherwise, Swagger UI sends the address of the description to a validator.
    let server = Setup::new().start();
    let script = server.get("/docs/swagger-initializer.js").text();
    assert!(script.contains("/openapi.json"), "{script}");
    assert!(!script.contains("http://") && !script.contains("https://"), "{script}");
    let setting = script.split("validatorUrl").nth(1).expect("says what validates");
    assert!(setting.trim_start_matches(['"', ' ', ':']).starts_with("none"), "{script}");
}

#[test]
fn the_page_works_within_its_policy() {
    let server = Setup::new().start();
    let page = Page::new();
    page.open(&format!("http://{}/docs/", server.api));
    page.until("document.querySelectorAll('.opblock').length > 20");
    // An operation opens and shows its parts: styles, icons and scripts are all allowed.
    page.value("document.querySelector('.opblock-summary-control').click()");
    page.until("document.querySelector('.opblock.is-open .opblock-body') !== null");
    assert_eq!(page.complaints(), Vec::<String>::new());
    let own = format!("http://{}/", server.api);
    for address in page.requests() {
        assert!(address.starts_with(&own) || address.starts_with("data:"), "{address}");
    }
}
