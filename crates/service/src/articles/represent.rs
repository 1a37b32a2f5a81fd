//! Articles and comments in responses.

use super::store::listing::Listed;
use super::types::{Article, Author, Comment};
use crate::http::rfc3339::format_utc;
use serde::Serialize;

/// An article without its counts: what is cached of it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ArticleText {
    /// Identifier.
    id: i64,
    /// Title, on one line.
    title: String,
    /// Content, on any number of lines.
    content: String,
    /// Author; null once the account is deleted.
    author: Option<Author>,
    /// Time of writing, RFC 3339 in UTC.
    #[schema(format = DateTime)]
    created_at: String,
    /// Time of the last change, likewise.
    #[schema(format = DateTime)]
    updated_at: String,
}

/// An article (documentation of the JSON that is put together).
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ArticleBody {
    #[serde(flatten)]
    text: ArticleText,
    /// Number of likes.
    like_count: u64,
    /// Number of comments.
    comment_count: u64,
    /// Whether the caller likes it; null without a token.
    liked: Option<bool>,
}

/// An article in a listing.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ArticleItem {
    /// Identifier.
    id: i64,
    /// Title, on one line.
    title: String,
    /// Author; null once the account is deleted.
    author: Option<Author>,
    /// Time of writing, RFC 3339 in UTC.
    #[schema(format = DateTime)]
    created_at: String,
    /// Time of the last change, likewise.
    #[schema(format = DateTime)]
    updated_at: String,
    /// Number of likes, up to two seconds old.
    like_count: u64,
    /// Number of comments, likewise.
    comment_count: u64,
}

/// A comment.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommentItem {
    /// Identifier.
    id: i64,
    /// Content, on any number of lines.
    content: String,
    /// Author; null once the account is deleted.
    author: Option<Author>,
    /// Time of writing, RFC 3339 in UTC.
    #[schema(format = DateTime)]
    created_at: String,
}

impl From<Article> for ArticleText {
    fn from(article: Article) -> Self {
        Self {
            id: article.id,
            title: article.title,
            content: article.content,
            author: article.author,
            created_at: format_utc(article.created_at_ms),
            updated_at: format_utc(article.updated_at_ms),
        }
    }
}

impl From<Listed> for ArticleItem {
    fn from(Listed { article, likes }: Listed) -> Self {
        Self {
            id: article.id,
            title: article.title,
            author: article.author,
            created_at: format_utc(article.created_at_ms),
            updated_at: format_utc(article.updated_at_ms),
            like_count: likes,
            comment_count: article.counts.comments,
        }
    }
}

impl From<Comment> for CommentItem {
    fn from(comment: Comment) -> Self {
        Self {
            id: comment.id,
            content: comment.content,
            author: comment.author,
            created_at: format_utc(comment.created_at_ms),
        }
    }
}
