//! Pages: parsing, CSS selectors and writing, for `k6/html`.
//!
//! k6 has Go's `x/net/html` and cascadia. The parser here is html5ever, which builds the same tree; what is written and
//! which selectors there are follows those two.

mod language;
mod render;
mod select;
mod tree;

pub(crate) use select::{Selector, SelectorError};
pub(crate) use tree::{Data, Document};

#[cfg(test)]
mod tests;
