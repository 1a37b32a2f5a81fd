//! Errors of scripts, and their report.

use std::path::Path;

use rquickjs::{CaughtError, Coerced, Value};
use thiserror::Error;

use super::syntax::relocate;
use super::user::User;
use crate::options::lines;

/// Reason why a script could not be initialised or must not go on.
#[derive(Debug, Clone, Error, PartialEq)]
pub(crate) enum ScriptError {
    #[error("{0}")]
    Read(String),
    /// The script threw, or does not parse.
    #[error("{0}")]
    Exception(String),
    /// The script uses something k6 has and this engine does not.
    #[error("{0} is not supported yet")]
    Unsupported(String),
    /// As `Unsupported`, with the alternative.
    #[error("{what} is not supported yet; {instead}")]
    Replaced { what: String, instead: &'static str },
    /// Several problems, each reported in a message of its own.
    #[error("{}", lines(.0))]
    Several(Vec<ScriptError>),
    #[error("{0}")]
    Options(String),
    /// The run was stopped meanwhile.
    #[error("interrupted")]
    Interrupted,
    /// The script called `exec.test.abort()` before the run began.
    #[error("test aborted{0}")]
    Aborted(String),
    /// A life-cycle function took too long.
    #[error(
        "{function}() execution timed out after {seconds} seconds; the option {option} allows more"
    )]
    Timeout {
        /// `setup` or `teardown`.
        function: &'static str,
        option: &'static str,
        seconds: f64,
    },
    /// The init code took too long; holds the position it had reached.
    #[error("the init code did not end in time, {0}")]
    Overdue(String),
    /// The engine panicked; holds the place.
    #[error("the engine panicked in {0}; this is a bug, please report it")]
    Panic(String),
    /// No thread, memory, signal handler or output file for the run.
    #[error("cannot start the run: {0}")]
    Start(String),
}

impl ScriptError {
    /// Joins problems, flattening lists; `None` if there are none.
    pub(crate) fn of(problems: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut single: Vec<Self> = Vec::new();
        for problem in problems {
            match problem {
                Self::Several(more) => single.extend(more),
                one => single.push(one),
            }
        }
        if single.len() > 1 { Some(Self::Several(single)) } else { single.pop() }
    }
}

/// An exception as text: its message, then its stack.
pub(crate) fn describe(caught: &CaughtError<'_>) -> String {
    match caught {
        CaughtError::Exception(exception) => {
            let object = exception.as_object();
            let name: String = object.get("name").unwrap_or_else(|_| "Error".to_owned());
            let mut message = exception.message().unwrap_or_default();
            if name == "InternalError" && message == "out of memory" {
                message = out_of_memory();
            }
            let stack = exception.stack().unwrap_or_default();
            let stack: String = stack.lines().map(|line| format!("\n\t{}", line.trim())).collect();
            let sources = &User::of(object.ctx()).run.sources;
            let written = |path: &str, line, column| {
                sources.known(Path::new(path))?.syntax.positions.as_ref()?.written(line, column)
            };
            format!("{name}: {message}{}", relocate(&stack, written))
        }
        // Thrown by QuickJS when there is no memory for an error either.
        CaughtError::Value(value) if value.is_null() => {
            format!("Uncaught null (perhaps {})", out_of_memory())
        }
        CaughtError::Value(value) => format!("Uncaught {}", to_text(value)),
        CaughtError::Error(error) => error.to_string(),
    }
}

fn out_of_memory() -> String {
    let limit = super::MEMORY_LIMIT_BYTES >> 20;
    format!("out of memory: a virtual user's script may use {limit} MiB")
}

/// A value as text: strings as they are, objects as JSON.
pub(crate) fn to_text(value: &Value<'_>) -> String {
    if let Some(exception) = value.as_exception() {
        let message = exception.message().unwrap_or_default();
        let name: String = exception.as_object().get("name").unwrap_or_else(|_| "Error".to_owned());
        return format!("{name}: {message}");
    }
    if value.is_object()
        && !value.is_function()
        && let Ok(Some(json)) = value.ctx().json_stringify(value.clone())
    {
        return json.to_string().unwrap_or_default();
    }
    plain(value)
}

/// `String(value)`, or the type's name if the script's `toString` throws.
pub(super) fn plain(value: &Value<'_>) -> String {
    let text = value.get::<Coerced<String>>().map(|text| text.0);
    text.unwrap_or_else(|_| {
        // Clears the exception.
        value.ctx().catch();
        format!("[{}]", value.type_name())
    })
}
