//! Pages for `k6/html`: parsing, CSS selectors and rendering.
//!
//! k6 uses Go's `x/net/html` and cascadia. The parser here is html5ever, which builds the same tree; output and
//! selectors follow those two.

mod language;
mod render;
mod select;
mod tree;

pub(crate) use select::{Selector, SelectorError};
pub(crate) use tree::{Data, Document};

#[cfg(test)]
mod tests;
