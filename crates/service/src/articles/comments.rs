//! Comments: the oldest first. Their number is a count of the article, kept in their transactions.

pub(super) mod create;
pub(super) mod list;
pub(super) mod one;
pub(super) mod store;

pub use store::CommentStore;
