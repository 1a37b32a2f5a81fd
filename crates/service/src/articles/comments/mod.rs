//! Comments: the oldest first. Their number is a count of the article, kept in their transactions.

pub(super) mod add;
pub(super) mod delete;
pub(super) mod list;
pub(super) mod store;

pub use store::CommentStore;
