//! What articles and comments are to the rest of the program.

use crate::accounts::UserId;
use crate::search::Position;

/// Identifier of an article, never reused.
pub type ArticleId = i64;

/// Identifier of a comment, never reused.
pub type CommentId = i64;

/// How many comments and likes an article has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Users who like it.
    pub likes: u64,
    /// Comments on it.
    pub comments: u64,
}

/// Who wrote something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// The user.
    pub id: UserId,
    /// The nickname as it was registered.
    pub nickname: String,
}

/// An article to be stored. Its texts have been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewArticle {
    /// Who writes it.
    pub author: UserId,
    /// 1 to 100 characters on one line.
    pub title: String,
    /// 1 to 10,000 characters.
    pub content: String,
    /// When it was written, in milliseconds since 1970, UTC.
    pub created_at_ms: i64,
}

/// What is to be changed of an article.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// A new title.
    pub title: Option<String>,
    /// A new content.
    pub content: Option<String>,
}

/// A stored article.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Article {
    /// Identifier.
    pub id: ArticleId,
    /// Its author; nobody when the account is gone.
    pub author: Option<Author>,
    /// 1 to 100 characters on one line.
    pub title: String,
    /// 1 to 10,000 characters on any number of lines.
    pub content: String,
    /// When it was written, in milliseconds since 1970, UTC.
    pub created_at_ms: i64,
    /// When it was last changed, likewise.
    pub updated_at_ms: i64,
}

/// An article in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Identifier.
    pub id: ArticleId,
    /// Its author; nobody when the account is gone.
    pub author: Option<Author>,
    /// 1 to 100 characters on one line.
    pub title: String,
    /// When it was written, in milliseconds since 1970, UTC.
    pub created_at_ms: i64,
    /// When it was last changed, likewise.
    pub updated_at_ms: i64,
    /// Its comments and likes.
    pub counts: Counts,
}

impl Summary {
    /// Where it stands by likes.
    pub(super) fn position(&self) -> Position {
        (i64::try_from(self.counts.likes).unwrap_or(i64::MAX), self.id)
    }
}

/// The order of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The last one first.
    Newest,
    /// The most liked first; of those with equally many the last one.
    Likes,
}

/// A comment to be stored. Its text has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewComment {
    /// On which article.
    pub article: ArticleId,
    /// Who writes it.
    pub author: UserId,
    /// 1 to 1,000 characters.
    pub content: String,
    /// When it was written, in milliseconds since 1970, UTC.
    pub created_at_ms: i64,
}

/// A stored comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Identifier.
    pub id: CommentId,
    /// Its author; nobody when the account is gone.
    pub author: Option<Author>,
    /// 1 to 1,000 characters on any number of lines.
    pub content: String,
    /// When it was written, in milliseconds since 1970, UTC.
    pub created_at_ms: i64,
}
