//! The last errors of the server (5xx), for the operator's view.
//!
//! They contain what the log contains, without values that a client may have sent. Equal errors are one entry with a
//! count, so that a flood of refusals does not hide the fault behind it.

use crate::http::{Problem, rfc3339};
use http::Method;
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::VecDeque;

const KEPT: usize = 50;
const LONGEST: usize = 200;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LastError {
    /// Time of the last one, in RFC 3339.
    at: String,
    method: &'static str,
    /// Template of the route.
    route: &'static str,
    status: u16,
    /// Request id of the last one, for a search in the log.
    request_id: String,
    message: String,
    /// Number of equal errors since the entry was added.
    count: u64,
}

#[derive(Debug, Default)]
pub(crate) struct LastErrors(Mutex<VecDeque<LastError>>);

impl LastErrors {
    pub(crate) fn add(
        &self,
        method: &Method,
        route: &'static str,
        request_id: &str,
        problem: &Problem,
    ) {
        let mut error = LastError {
            at: rfc3339::now_utc(),
            method: super::metrics::method_label(method),
            route,
            status: problem.status().as_u16(),
            request_id: request_id.to_owned(),
            message: without_values(problem.cause()),
            count: 1,
        };
        let mut kept = self.0.lock();
        let alike = kept.iter().position(|one| {
            (one.method, one.route, one.status) == (error.method, error.route, error.status)
                && one.message == error.message
        });
        if let Some(before) = alike.and_then(|at| kept.remove(at)) {
            error.count += before.count;
        }
        kept.truncate(KEPT - 1);
        kept.push_front(error);
    }

    pub(crate) fn read(&self) -> Vec<LastError> {
        self.0.lock().iter().cloned().collect()
    }
}

/// A message without its quoted values: databases and panics quote values, which may be private.
fn without_values(message: &str) -> String {
    let mut text = message.to_owned();
    for quote in ['\'', '"'] {
        if let (Some(first), Some(last)) = (text.find(quote), text.rfind(quote))
            && first < last
        {
            text.replace_range(first..=last, "…");
        }
    }
    text.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(errors: &LastErrors, id: &str, cause: &str) {
        errors.add(&Method::GET, "/v1/tracks/{id}", id, &Problem::internal(cause));
    }

    #[test]
    fn errors_that_are_alike_are_one_entry_under_the_last_id() {
        let errors = LastErrors::default();
        add(&errors, "1", "damaged");
        for id in 0..1000 {
            add(&errors, &id.to_string(), "shed");
        }
        add(&errors, "2", "damaged");
        let read: Vec<_> =
            errors.read().into_iter().map(|e| (e.message, e.count, e.request_id)).collect();
        let expected = [("damaged", 2, "2"), ("shed", 1000, "999")];
        assert_eq!(read, expected.map(|(text, count, id)| (text.into(), count, id.into())));
    }

    #[test]
    fn only_so_many_are_kept_and_none_is_long() {
        let errors = LastErrors::default();
        for number in 0..200 {
            add(&errors, "1", &format!("{number} {}", "가".repeat(300)));
        }
        let read = errors.read();
        assert_eq!((read.len(), read[0].message.chars().count()), (KEPT, LONGEST));
        assert!(read[0].message.starts_with("199 "), "the latest first");
    }

    #[test]
    fn what_a_message_quotes_is_left_out() {
        let duplicate = "Duplicate entry 'mina' for key 'nickname'";
        assert_eq!(without_values(duplicate), "Duplicate entry …");
        assert_eq!(without_values("an `Err` value: \"a \\\"b\\\" c\""), "an `Err` value: …");
        assert_eq!(without_values("the peer's end"), "the peer's end");
        assert_eq!(without_values("no quotes"), "no quotes");
    }
}
