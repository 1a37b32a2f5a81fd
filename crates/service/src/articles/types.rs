//! Types of articles and comments.

use crate::accounts::UserId;
use crate::search::Position;
use serde::Serialize;

/// Identifier of an article, never reused.
pub type ArticleId = i64;

/// Identifier of a comment, never reused.
pub(crate) type CommentId = i64;

/// Numbers of likes and comments of an article.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Users who like it.
    pub likes: u64,
    /// Comments on it.
    pub comments: u64,
}

/// The author of an article or a comment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = AuthorBody)]
pub struct Author {
    /// Identifier of the user.
    #[schema(value_type = i64)]
    pub id: UserId,
    /// Nickname.
    pub nickname: String,
}

/// An article to be stored. Its texts have been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewArticle {
    /// The author.
    pub author: UserId,
    /// 1 to 100 characters on one line.
    pub title: String,
    /// 1 to 10,000 characters.
    pub content: String,
    /// Creation time in milliseconds since 1970, UTC.
    pub created_at_ms: i64,
}

/// Changes to an article; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// The new title.
    pub title: Option<String>,
    /// The new content.
    pub content: Option<String>,
}

/// A stored article. Times are in milliseconds since 1970, UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Article {
    pub id: ArticleId,
    /// `None`: the account was deleted.
    pub author: Option<Author>,
    pub title: String,
    pub content: String,
    pub created_at_ms: i64,
    pub updated_at_ms: i64,
}

/// An article in a listing. Times are in milliseconds since 1970, UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub id: ArticleId,
    /// `None`: the account was deleted.
    pub author: Option<Author>,
    pub title: String,
    pub created_at_ms: i64,
    pub updated_at_ms: i64,
    pub counts: Counts,
}

impl Summary {
    /// Its position in the order by likes.
    pub(super) fn position(&self) -> Position {
        (i64::try_from(self.counts.likes).unwrap_or(i64::MAX), self.id)
    }
}

/// The order of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Newest,
    /// The most liked first; of those with equally many the newest.
    Likes,
}

/// A comment to be stored. Its text has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewComment {
    /// The article.
    pub article: ArticleId,
    /// The author.
    pub author: UserId,
    /// 1 to 1,000 characters.
    pub content: String,
    /// Creation time in milliseconds since 1970, UTC.
    pub created_at_ms: i64,
}

/// A stored comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    pub id: CommentId,
    /// `None`: the account was deleted.
    pub author: Option<Author>,
    pub content: String,
    /// In milliseconds since 1970, UTC.
    pub created_at_ms: i64,
}
