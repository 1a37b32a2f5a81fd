//! `console`.

use rquickjs::function::{Rest, This};
use rquickjs::{Ctx, Object, Result, Value};

use super::error::plain;
use super::modules::define;
use super::user::User;
use crate::log::Level;

pub(super) fn install(ctx: &Ctx<'_>) -> Result<()> {
    let console = Object::new(ctx.clone())?;
    for (name, level) in [
        ("log", Level::Info),
        ("info", Level::Info),
        ("debug", Level::Debug),
        ("warn", Level::Warning),
        ("error", Level::Error),
    ] {
        define(&console, name, move |ctx: Ctx<'_>, values: Rest<Value<'_>>| {
            write(&ctx, level, &values.0);
        })?;
    }
    ctx.globals().set("console", console)
}

fn write(ctx: &Ctx<'_>, level: Level, values: &[Value<'_>]) {
    let user = User::of(ctx);
    if level == Level::Debug && !user.run.log.verbose {
        return;
    }
    let text: Vec<String> = values.iter().map(shown).collect();
    user.run.log.write_console(level, &text.join(" "));
}

/// Nested objects that are shown.
const MAX_DEPTH: usize = 50;

const FUNCTION: &str = "[object Function]";

/// A value as k6 shows it: strings as they are, objects with their members.
fn shown(value: &Value<'_>) -> String {
    if value.is_function() {
        return FUNCTION.to_owned();
    }
    if !value.is_object() || value.is_error() {
        return plain(value);
    }
    let mut text = String::new();
    show(&mut text, value, &mut Vec::new());
    text
}

fn show<'js>(text: &mut String, value: &Value<'js>, around: &mut Vec<Value<'js>>) {
    if value.is_null() || value.is_undefined() {
        text.push_str("null");
    } else if value.is_function() {
        text.push_str(FUNCTION);
    } else if let Some(own) = value.as_string() {
        text.push('"');
        text.push_str(&own.to_string().unwrap_or_default());
        text.push('"');
    } else if around.contains(value) || around.len() >= MAX_DEPTH {
        text.push_str("[Circular]");
    } else if let Some(object) = value.as_object().filter(|_| !value.is_error()) {
        around.push(value.clone());
        show_object(text, object, around);
        around.pop();
    } else {
        text.push_str(&plain(value));
    }
}

fn show_object<'js>(text: &mut String, object: &Object<'js>, around: &mut Vec<Value<'js>>) {
    let member = |name: &str| {
        object.get::<_, Value<'js>>(name).unwrap_or_else(|_| {
            // A getter of the script threw.
            object.ctx().catch();
            Value::new_undefined(object.ctx().clone())
        })
    };
    if let Some(buffer) = object.as_array_buffer() {
        let bytes: Vec<String> = super::modules::text_or_bytes(object.as_value())
            .ok()
            .flatten()
            .unwrap_or_default()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let length = buffer.len();
        text.push_str(&format!(
            "ArrayBuffer {{ [Uint8Contents]: <{}>, byteLength: {length} }}",
            bytes.join(" ")
        ));
        return;
    }
    let is_view = object.get::<_, Option<u32>>("BYTES_PER_ELEMENT").ok().flatten().is_some();
    if is_view || object.is_array() {
        let length = member("length").as_number().unwrap_or(0.0) as usize;
        if is_view {
            let constructor = object.get::<_, Object<'js>>("constructor");
            let name = constructor.and_then(|constructor| constructor.get::<_, String>("name"));
            text.push_str(&format!("{}({length})", name.unwrap_or_default()));
            text.push_str(if length == 0 { " []" } else { " " });
        } else if length == 0 {
            text.push_str("[]");
        }
        let elements = (0..length).map(|at| member(&at.to_string()));
        list(text, ["[ ", " ]"], elements.map(|value| (None, value)), around);
        return;
    }
    let names: Vec<String> = object.keys::<String>().filter_map(Result::ok).collect();
    if names.is_empty() {
        let date = member("toISOString").into_function();
        let date = date.and_then(|date| date.call::<_, String>((This(object.clone()),)).ok());
        match date {
            Some(date) => text.push_str(&format!("\"{date}\"")),
            None => text.push_str("{}"),
        }
        return;
    }
    let members = names.into_iter().map(|name| {
        let value = member(&name);
        (Some(name), value)
    });
    list(text, ["{ ", " }"], members, around);
}

fn list<'js>(
    text: &mut String,
    [open, close]: [&str; 2],
    members: impl Iterator<Item = (Option<String>, Value<'js>)>,
    around: &mut Vec<Value<'js>>,
) {
    let mut is_empty = true;
    for (name, value) in members {
        text.push_str(if is_empty { open } else { ", " });
        is_empty = false;
        if let Some(name) = name {
            text.push_str(&name);
            text.push_str(": ");
        }
        show(text, &value, around);
    }
    if !is_empty {
        text.push_str(close);
    }
}
