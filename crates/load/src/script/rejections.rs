//! Promises that were rejected without a handler.

use std::cell::{Cell, RefCell};

use rquickjs::{CaughtError, Ctx, Value};

use super::error::describe;

/// Rejections kept until the end of an iteration; further ones are not reported.
const MAX_KEPT: usize = 64;

/// The unhandled rejections of one virtual user, as text.
///
/// Promises are distinguished by their reason only: in the report, two with the same text are interchangeable.
#[derive(Debug, Default)]
pub(crate) struct Rejections {
    unhandled: RefCell<Vec<String>>,
    /// Describing a reason may run code of the script, which may reject further promises.
    describing: Cell<bool>,
}

impl Rejections {
    /// Called by QuickJS when a promise without a handler is rejected, and again, with `is_handled`, when it gets one.
    pub(super) fn track<'js>(&self, ctx: &Ctx<'js>, reason: Value<'js>, is_handled: bool) {
        if self.describing.replace(true) {
            return;
        }
        let caught = match reason.clone().into_exception() {
            Some(exception) => CaughtError::Exception(exception),
            None => CaughtError::Value(reason),
        };
        let text = describe(&caught);
        // A getter of the reason may have thrown.
        ctx.catch();
        self.describing.set(false);
        if is_handled {
            self.forget(&text);
        } else if self.unhandled.borrow().len() < MAX_KEPT {
            self.unhandled.borrow_mut().push(text);
        }
    }

    /// Removes a rejection with this text, which has been reported already.
    pub(super) fn forget(&self, text: &str) {
        let mut unhandled = self.unhandled.borrow_mut();
        if let Some(at) = unhandled.iter().position(|known| known == text) {
            unhandled.remove(at);
        }
    }

    /// Takes the remaining ones, in the order of rejection.
    pub(super) fn take(&self) -> Vec<String> {
        self.unhandled.take()
    }
}
