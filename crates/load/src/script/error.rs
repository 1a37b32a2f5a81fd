//! What can go wrong in a script, and how it is reported.

use std::path::Path;

use rquickjs::{CaughtError, Ctx, Value};
use thiserror::Error;

use super::syntax::relocate;
use super::user::User;
use crate::options::lines;

/// A script that could not be initialised, or must not go on.
#[derive(Debug, Clone, Error, PartialEq)]
pub(crate) enum ScriptError {
    /// A file could not be read.
    #[error("{0}")]
    Read(String),
    /// The script threw, or does not parse.
    #[error("{0}")]
    Exception(String),
    /// The script uses something k6 has and this engine does not.
    #[error("{0} is not supported yet")]
    Unsupported(String),
    /// The same, and what to do instead.
    #[error("{what} is not supported yet; {instead}")]
    Replaced { what: String, instead: &'static str },
    /// More than one problem, each reported in a message of its own.
    #[error("{}", lines(.0))]
    Several(Vec<ScriptError>),
    /// The options cannot be used.
    #[error("{0}")]
    Options(String),
    /// The run was stopped meanwhile.
    #[error("interrupted")]
    Interrupted,
    /// The script called `exec.test.abort()` before the run began.
    #[error("test aborted{0}")]
    Aborted(String),
    /// A function of the life-cycle took too long.
    #[error(
        "{function}() execution timed out after {seconds} seconds; the option {option} allows more"
    )]
    Timeout {
        /// `setup` or `teardown`.
        function: &'static str,
        /// The option that sets the limit.
        option: &'static str,
        seconds: f64,
    },
    /// The init code took too long; where it was.
    #[error("the init code did not end in time, {0}")]
    Overdue(String),
    /// The engine panicked, and where.
    #[error("the engine panicked in {0}; this is a bug, please report it")]
    Panic(String),
    /// No thread, memory, signal handler or output file for the run.
    #[error("cannot start the run: {0}")]
    Start(String),
}

impl ScriptError {
    /// The problems one by one; `None` if there is none.
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

/// An exception as text: message, then where it happened.
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
        // QuickJS throws it when there is no memory for an error either.
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

/// A value as the console shows it: strings as they are, objects as JSON.
pub(crate) fn to_text(value: &Value<'_>) -> String {
    let ctx: &Ctx<'_> = value.ctx();
    if let Some(exception) = value.as_exception() {
        let message = exception.message().unwrap_or_default();
        let name: String = exception.as_object().get("name").unwrap_or_else(|_| "Error".to_owned());
        return format!("{name}: {message}");
    }
    if value.is_object()
        && !value.is_function()
        && let Ok(Some(json)) = ctx.json_stringify(value.clone())
    {
        return json.to_string().unwrap_or_default();
    }
    // Clears what a throwing `toJSON` or `toString` left behind.
    let text = value.get::<rquickjs::Coerced<String>>().map(|text| text.0);
    text.unwrap_or_else(|_| {
        ctx.catch();
        format!("[{}]", value.type_name())
    })
}
