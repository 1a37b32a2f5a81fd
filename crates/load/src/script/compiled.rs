//! Compiled scripts, shared by virtual users: a bundle of some hundred kilobytes takes as long to compile as a
//! hundred requests take to send.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rquickjs::module::{Declared, WriteOptions};
use rquickjs::{Ctx, Error, FromJs, Module, Result, Value, qjs};

use super::user::User;

/// A module or script as bytecode of the QuickJS linked into this program. The owner knows which of the two it is:
/// sources record whether they are modules, and libraries that are scripts have names that no import has.
#[derive(Debug)]
pub(crate) struct Compiled(Vec<u8>);

impl Compiled {
    /// `None` if QuickJS cannot write the module.
    pub(super) fn from_module(module: &Module<'_, Declared>) -> Option<Self> {
        module.write(WriteOptions::default()).ok().map(Self)
    }

    #[expect(unsafe_code, reason = "QuickJS does not check what it reads")]
    pub(super) fn load<'js>(&self, ctx: &Ctx<'js>) -> Result<Module<'js, Declared>> {
        // SAFETY: these are the bytes of a module: the same QuickJS has written them in the same process, and nothing
        // has changed them since.
        unsafe { Module::load(ctx.clone(), &self.0) }
    }
}

/// Built-in libraries compiled by the first virtual user, by name.
#[derive(Debug, Default)]
pub(crate) struct Libraries(Mutex<HashMap<String, Arc<OnceLock<Compiled>>>>);

impl Libraries {
    fn get(&self, name: &str) -> Arc<OnceLock<Compiled>> {
        let mut known = self.0.lock();
        match known.get(name) {
            Some(library) => library.clone(),
            None => known.entry(name.to_owned()).or_default().clone(),
        }
    }
}

/// Declares the module of a built-in library.
pub(super) fn module<'js>(
    ctx: &Ctx<'js>,
    name: &str,
    text: impl FnOnce() -> String,
) -> Result<Module<'js, Declared>> {
    let library = User::of(ctx).run.sources.libraries.get(name);
    if let Some(compiled) = library.get() {
        return compiled.load(ctx);
    }
    let module = Module::declare(ctx.clone(), name, text())?;
    if let Ok(bytes) = module.write(without_texts()) {
        // Another virtual user may have been first.
        let _ = library.set(Compiled(bytes));
    }
    Ok(module)
}

/// Evaluates the script of a built-in library.
pub(super) fn library<'js, V: FromJs<'js>>(ctx: &Ctx<'js>, name: &str, text: &str) -> Result<V> {
    let library = User::of(ctx).run.sources.libraries.get(name);
    evaluate(ctx, name, || text.to_owned(), &library, &without_texts())
}

/// Evaluates a strict script of the user.
pub(super) fn script<'js, V: FromJs<'js>>(
    ctx: &Ctx<'js>,
    name: &str,
    text: impl FnOnce() -> String,
    compiled: &OnceLock<Compiled>,
) -> Result<V> {
    evaluate(ctx, name, text, compiled, &WriteOptions::default())
}

/// Drops the texts of a library's functions, which nothing needs and each virtual user would keep.
fn without_texts() -> WriteOptions {
    WriteOptions { strip_source: true, ..WriteOptions::default() }
}

/// Evaluates a strict script; only the first virtual user compiles it.
#[expect(unsafe_code, reason = "rquickjs compiles modules without running them, but not scripts")]
fn evaluate<'js, V: FromJs<'js>>(
    ctx: &Ctx<'js>,
    name: &str,
    text: impl FnOnce() -> String,
    compiled: &OnceLock<Compiled>,
    options: &WriteOptions,
) -> Result<V> {
    let raw = ctx.as_raw().as_ptr();
    let script = match compiled.get() {
        // SAFETY: `raw` is the context that runs, and these are the bytes of a script: `write` has made them with the
        // same QuickJS in the same process, and nothing has changed them since.
        Some(Compiled(bytes)) => unsafe {
            let flags = qjs::JS_READ_OBJ_BYTECODE as i32;
            qjs::JS_ReadObject(raw, bytes.as_ptr(), bytes.len() as _, flags)
        },
        None => {
            let (name, text) = (CString::new(name)?, CString::new(text())?);
            let flags = qjs::JS_EVAL_TYPE_GLOBAL
                | qjs::JS_EVAL_FLAG_STRICT
                | qjs::JS_EVAL_FLAG_COMPILE_ONLY;
            // SAFETY: `raw` is the context that runs; both texts end with a zero, which the length leaves out.
            unsafe {
                let length = text.as_bytes().len() as _;
                qjs::JS_Eval(raw, text.as_ptr(), length, name.as_ptr(), flags as i32)
            }
        }
    };
    // SAFETY: reads the tag.
    if unsafe { qjs::JS_VALUE_GET_TAG(script) } == qjs::JS_TAG_EXCEPTION {
        return Err(Error::Exception);
    }
    if compiled.get().is_none()
        && let Some(bytes) = write(ctx, script, options)
    {
        // Another virtual user may have been first.
        let _ = compiled.set(Compiled(bytes));
    }
    // SAFETY: `script` is a compiled script of this context and not used again: this call frees it. The new value
    // owns the result.
    let value = unsafe {
        let value = qjs::JS_EvalFunction(raw, script);
        if qjs::JS_VALUE_GET_TAG(value) == qjs::JS_TAG_EXCEPTION {
            return Err(Error::Exception);
        }
        Value::from_raw(ctx.clone(), value)
    };
    V::from_js(ctx, value)
}

/// The bytes of a compiled script; `None` if QuickJS cannot write it.
#[expect(unsafe_code, reason = "rquickjs writes modules, but not scripts")]
fn write(ctx: &Ctx<'_>, script: qjs::JSValue, options: &WriteOptions) -> Option<Vec<u8>> {
    let raw = ctx.as_raw().as_ptr();
    let mut length = 0;
    // SAFETY: `script` is a compiled script of this context, which the call does not free. The bytes are copied
    // before they are freed with the context's own allocator.
    unsafe {
        let bytes = qjs::JS_WriteObject(raw, &raw mut length, script, options.to_flag());
        if bytes.is_null() {
            ctx.catch();
            return None;
        }
        let copy = std::slice::from_raw_parts(bytes, length as usize).to_vec();
        qjs::js_free(raw, bytes.cast());
        Some(copy)
    }
}
