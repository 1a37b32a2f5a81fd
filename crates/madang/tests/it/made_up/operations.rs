//! What there is to ask for, read from the server's own description.

use crate::harness::{Person, Server};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// A method on a path.
#[derive(Debug)]
pub struct Operation {
    pub id: String,
    pub method: String,
    /// Between its parts stands one parameter each: `/v1/articles/`, `/comments`.
    pub path: Vec<String>,
    pub query: Vec<String>,
    /// The statuses that it is documented to answer.
    pub statuses: BTreeSet<u16>,
    /// Members of a good body, each with a good value; none where it takes no JSON.
    pub body: Option<Map<String, Value>>,
    /// It also takes files.
    pub takes_files: bool,
    /// It ends the tokens or the account of its caller.
    pub ends_callers: bool,
}

/// All of them, and people to ask in the name of.
#[derive(Debug)]
pub struct Operations {
    pub all: Vec<Operation>,
    pub tokens: Vec<String>,
    /// Of somebody whom requests may log out and delete.
    pub spare_token: String,
    /// Cursors and tags that the server has made.
    pub cursors: Vec<String>,
    pub tags: Vec<String>,
}

impl Operations {
    pub fn of(server: &Server) -> Self {
        let document = server.get("/openapi.json").json();
        let paths = document["paths"].as_object().unwrap();
        let all: Vec<Operation> = paths
            .iter()
            .flat_map(|(path, operations)| {
                let operations = operations.as_object().unwrap().iter();
                operations.map(|(method, one)| operation(&document, method, path, one))
            })
            .collect();
        assert!(all.len() > 30, "the description has few operations");
        let people: Vec<Person> =
            (0..3).map(|n| server.somebody(&format!("made-up-{n}"))).collect();
        let spare_token = server.somebody("made-up-spare").token;
        let mut cursors = Vec::new();
        let mut tags = Vec::new();
        for path in
            ["/v1/tracks?limit=1", "/v1/markets?limit=1&q=a", "/v1/markets?limit=1", "/v1/tracks/1"]
        {
            let answer = server.get(path);
            tags.extend(answer.header("etag").map(str::to_owned));
            cursors.extend(answer.json()["nextCursor"].as_str().map(str::to_owned));
        }
        assert!(!cursors.is_empty() && !tags.is_empty());
        Self {
            all,
            tokens: people.into_iter().map(|one| one.token).collect(),
            spare_token,
            cursors,
            tags,
        }
    }
}

fn operation(document: &Value, method: &str, path: &str, one: &Value) -> Operation {
    let parameters = one["parameters"].as_array().into_iter().flatten();
    let query = parameters.filter(|one| one["in"] == "query");
    let content = &one["requestBody"]["content"];
    let schema = &content["application/json"]["schema"];
    let schema = match schema["$ref"].as_str() {
        Some(named) => document.pointer(named.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    let body = schema["examples"][0].as_object().cloned();
    assert!(
        body.is_some() || content["application/json"].is_null(),
        "{path}: a body without an example"
    );
    let id = one["operationId"].as_str().unwrap().to_owned();
    let mut parts = vec![String::new()];
    for part in path.split_inclusive(['{', '}']) {
        match part.strip_suffix('}') {
            Some(_) => parts.push(String::new()),
            None => parts.last_mut().unwrap().push_str(part.trim_end_matches('{')),
        }
    }
    Operation {
        ends_callers: matches!(&*id, "logout" | "logoutAll" | "changePassword" | "deleteAccount"),
        method: method.to_uppercase(),
        path: parts,
        query: query.map(|one| one["name"].as_str().unwrap().to_owned()).collect(),
        statuses: one["responses"]
            .as_object()
            .unwrap()
            .keys()
            .map(|s| s.parse().unwrap())
            .collect(),
        takes_files: !content["application/gpx+xml"].is_null(),
        body,
        id,
    }
}
