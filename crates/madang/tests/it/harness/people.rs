//! People who register and log in, and requests with a body.

use super::client::{Answer, Connection, head};
use super::server::{Server, Setup};
use serde_json::{Value, json};

/// The password of everybody in tests.
pub const PASSWORD: &str = "right-horse-battery";

/// Somebody who is logged in.
#[derive(Clone, Debug)]
pub struct Person {
    pub nickname: String,
    pub token: String,
}

impl Setup {
    /// Hashes passwords as cheaply as there is a way, for tests that are not about hashing.
    pub fn cheap_hash(self) -> Setup {
        self.set("unsafe_experiments", "true").set("accounts.hash", "bcrypt:4")
    }

    /// Has log-ins wait rather than refused, for tests that are not about that: hashing threads have a low priority, and
    /// the machine may be busy with other tests.
    pub fn patient(self) -> Setup {
        let hashing = self.set("accounts.hash_wait", "60s").set("guard.wait", "60s");
        hashing.set("server.request_timeout", "60s")
    }
}

impl Connection {
    /// Sends a request with these headers and this body, and reads its answer.
    pub fn send_body(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> Answer {
        let body = body.as_ref();
        let length = body.len().to_string();
        let headers: Vec<_> =
            headers.iter().copied().chain([("Content-Length", length.as_str())]).collect();
        // Of a large one that is refused the server reads no more for long.
        self.try_send([head(method, path, &headers).as_bytes(), body].concat());
        self.answer_to(method).unwrap_or_else(|| panic!("no answer to {method} {path}"))
    }

    /// Sends JSON, with the token of somebody or none.
    pub fn json(&mut self, method: &str, path: &str, by: Option<&Person>, body: &Value) -> Answer {
        let bearer = by.map(Person::bearer);
        let mut headers = vec![("Content-Type", "application/json")];
        headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
        self.send_body(method, path, &headers, body.to_string())
    }
}

impl Person {
    /// The value of the header that says who this is.
    pub fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    /// A POST of JSON as bytes, for tests that send many before they read an answer.
    pub fn posting(&self, path: &str, body: &Value) -> Vec<u8> {
        let (bearer, body) = (self.bearer(), body.to_string());
        let length = body.len().to_string();
        let headers = [
            ("Content-Type", "application/json"),
            ("Authorization", bearer.as_str()),
            ("Content-Length", length.as_str()),
        ];
        [head("POST", path, &headers).as_bytes(), body.as_bytes()].concat()
    }
}

impl Server {
    /// POSTs JSON on a connection of its own.
    pub fn post(&self, path: &str, by: Option<&Person>, body: &Value) -> Answer {
        self.connect().json("POST", path, by, body)
    }

    /// DELETEs on a connection of its own.
    pub fn delete(&self, path: &str, by: Option<&Person>) -> Answer {
        let bearer = by.map(Person::bearer);
        let headers: Vec<_> =
            bearer.as_deref().map(|bearer| ("Authorization", bearer)).into_iter().collect();
        self.connect().request("DELETE", path, &headers)
    }

    /// Somebody new, registered and logged in.
    pub fn somebody(&self, nickname: &str) -> Person {
        let body = json!({"nickname": nickname, "password": PASSWORD, "region_name": "서울특별시"});
        let registered = self.post("/v1/auth/user/register", None, &body);
        assert_eq!(registered.status, 201, "{}", registered.text());
        self.log_in(nickname)
    }

    /// Somebody who has registered already, logged in.
    pub fn log_in(&self, nickname: &str) -> Person {
        let body = json!({"nickname": nickname, "password": PASSWORD});
        let answer = self.post("/v1/auth/user/login", None, &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let token = answer.json()["token"].as_str().unwrap().to_owned();
        Person { nickname: nickname.to_owned(), token }
    }
}
