//! The globals `TextEncoder` and `TextDecoder`, made when a script first reads them.

use rquickjs::convert::List;
use rquickjs::object::{Accessor, Property};
use rquickjs::{ArrayBuffer, Ctx, Object, Result, Value};

use super::bytes::buffer_bytes;
use super::{define, library};
use crate::script::raw;

const LIBRARY: &str = include_str!("text_coding.js");

const NAMES: [&str; 2] = ["TextEncoder", "TextDecoder"];

pub(super) fn install<'js>(ctx: &Ctx<'js>) -> Result<()> {
    for name in NAMES {
        let get = move |ctx: Ctx<'js>| -> Result<Value<'js>> {
            make(&ctx)?;
            ctx.globals().get(name)
        };
        let set = move |ctx: Ctx<'js>, value: Value<'js>| set_global(&ctx, name, value);
        ctx.globals().prop(name, Accessor::new(get, set).configurable())?;
    }
    Ok(())
}

fn set_global<'js>(ctx: &Ctx<'js>, name: &str, value: Value<'js>) -> Result<()> {
    ctx.globals().prop(name, Property::from(value).writable().configurable())
}

fn make(ctx: &Ctx<'_>) -> Result<()> {
    let made: Object<'_> = library(ctx, "text_coding.js", LIBRARY, |native| {
        define(native, "encode", encode)?;
        define(native, "decode", decode)
    })?;
    for name in NAMES {
        set_global(ctx, name, made.get(name)?)?;
    }
    Ok(())
}

fn encode(ctx: Ctx<'_>, text: String) -> Result<ArrayBuffer<'_>> {
    ArrayBuffer::new_copy(ctx, text.as_bytes())
}

/// The text, the number of bytes in it, and whether those were valid UTF-8. With `stream`, an incomplete character at
/// the end is left for the next call.
fn decode<'js>(
    ctx: Ctx<'js>,
    buffer: Object<'js>,
    stream: bool,
) -> Result<List<(Value<'js>, f64, bool)>> {
    let bytes = buffer_bytes(&buffer).unwrap_or_default();
    let cut = if stream { incomplete(&bytes) } else { 0 };
    let used = &bytes[..bytes.len() - cut];
    Ok(List((raw::text(&ctx, used)?, used.len() as f64, std::str::from_utf8(used).is_ok())))
}

/// Length of an incomplete character at the end of the bytes.
fn incomplete(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(3);
    (tail..bytes.len())
        .find_map(|at| match std::str::from_utf8(&bytes[at..]) {
            Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => {
                Some(bytes.len() - at)
            }
            _ => None,
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_beginning_of_a_character_is_incomplete() {
        let text = "한".as_bytes();
        assert_eq!(incomplete(&text[..1]), 1);
        assert_eq!(incomplete(&text[..2]), 2);
        assert_eq!(incomplete(text), 0);
        assert_eq!(incomplete(b"abc"), 0);
        assert_eq!(incomplete(b"ab\xff"), 0);
        assert_eq!(incomplete("a😀".as_bytes().split_at(4).0), 3);
    }
}
