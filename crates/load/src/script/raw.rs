//! Functions of QuickJS that rquickjs lacks.

use std::borrow::Cow;

use encoding_rs::mem;
use rquickjs::{Ctx, Error, IntoJs, Result, Value, qjs};

/// A script string from bytes that should be UTF-8; invalid sequences become U+FFFD.
///
/// Most bodies are ASCII, which QuickJS copies. Other text it decodes twice and byte by byte, which took a quarter of
/// a generator's time with Korean bodies: such text is decoded here and copied.
pub(super) fn text<'js>(ctx: &Ctx<'js>, bytes: &[u8]) -> Result<Value<'js>> {
    // QuickJS expects strings that fit into one byte per character to be stored so.
    if mem::is_utf8_latin1(bytes) {
        return lossy(bytes).into_js(ctx);
    }
    let mut units = vec![0; bytes.len() + 1];
    let length = mem::convert_utf8_to_utf16(bytes, &mut units);
    utf16(ctx, &units[..length])
}

#[expect(unsafe_code, reason = "rquickjs makes strings of UTF-8 only")]
fn utf16<'js>(ctx: &Ctx<'js>, units: &[u16]) -> Result<Value<'js>> {
    // SAFETY: the context is the running one; the units are copied, and the result is owned by the new value.
    unsafe {
        let value = qjs::JS_NewStringUTF16(ctx.as_raw().as_ptr(), units.as_ptr(), units.len() as _);
        if qjs::JS_VALUE_GET_TAG(value) == qjs::JS_TAG_EXCEPTION {
            return Err(Error::Exception);
        }
        Ok(Value::from_raw(ctx.clone(), value))
    }
}

/// As `String::from_utf8_lossy`, which is ten times slower for valid UTF-8.
pub(super) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// True for functions written with `async`.
#[expect(unsafe_code, reason = "rquickjs does not distinguish kinds of functions")]
pub(super) fn is_async(value: &Value<'_>) -> bool {
    // SAFETY: reads the class of a value that lives as long as the reference to it.
    unsafe { qjs::JS_IsAsyncFunction(value.as_raw()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rquickjs::{Context, Function, Runtime};

    use super::*;

    fn with_context(work: impl FnOnce(&Ctx<'_>)) {
        let runtime = Runtime::new().unwrap();
        Context::full(&runtime).unwrap().with(|ctx| work(&ctx));
    }

    fn is_same(ctx: &Ctx<'_>, bytes: &[u8]) -> bool {
        let expected = String::from_utf8_lossy(bytes);
        let same = "(a, b) => a === b && b === a && a.length === b.length && a in {[b]: 1} && b in {[a]: 1}
                    && a.slice(1) === b.slice(1) && JSON.stringify(a) === JSON.stringify(b)";
        let same: Function<'_> = ctx.eval(same).unwrap();
        let equal = same.call((text(ctx, bytes).unwrap(), expected.as_ref())).unwrap();
        equal && lossy(bytes) == expected
    }

    #[test]
    fn texts_of_every_width_are_those_of_the_engine() {
        with_context(|ctx| {
            for text in ["", "a", "\0", "é", "caf\u{e9}\u{100}", "시장", "a\u{1f3c3}b", "\u{feff}x"]
            {
                assert!(is_same(ctx, text.as_bytes()), "{text:?}");
            }
            for bytes in
                [&b"\xff"[..], b"a\xec\x8b", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80x"]
            {
                assert!(is_same(ctx, bytes), "{bytes:?}");
            }
        });
    }

    #[test]
    fn a_text_beyond_the_memory_is_an_exception() {
        let runtime = Runtime::new().unwrap();
        runtime.set_memory_limit(1 << 20);
        Context::full(&runtime).unwrap().with(|ctx| {
            let long = "시".repeat(1 << 20);
            assert!(matches!(text(&ctx, long.as_bytes()), Err(Error::Exception)));
            ctx.catch();
            assert!(is_same(&ctx, "시장".as_bytes()), "and the script goes on");
        });
    }

    #[test]
    fn only_async_functions_are_async() {
        with_context(|ctx| {
            for (code, expected) in [
                ("async () => {}", true),
                ("async function named() {}", true),
                ("({ async m() {} }).m", true),
                ("() => {}", false),
                ("function* g() {}", false),
                ("async function* g() {}", false),
                ("class C {}", false),
                ("Promise.resolve", false),
                ("({ constructor: { name: 'AsyncFunction' } })", false),
                ("1", false),
                ("undefined", false),
            ] {
                let value: Value<'_> = ctx.eval(format!("({code})")).unwrap();
                assert_eq!(is_async(&value), expected, "{code}");
            }
        });
    }

    proptest! {
        #[test]
        fn any_bytes_become_the_same_text(
            bytes in prop_oneof![any::<Vec<u8>>(), any::<String>().prop_map(String::into_bytes)],
        ) {
            let mut same = false;
            with_context(|ctx| same = is_same(ctx, &bytes));
            prop_assert!(same);
        }
    }
}
