//! Bodies of requests, checked.

use super::types::{ArticleId, Edit, NewArticle, NewComment, now_ms};
use crate::accounts::UserId;
use crate::http::{JsonObject, Problem};

/// Most characters of a title.
pub const LONGEST_TITLE: usize = 100;

/// Most characters of an article's content.
pub const LONGEST_CONTENT: usize = 10_000;

/// Most characters of a comment.
pub const LONGEST_COMMENT: usize = 1000;

/// What a client asks to be stored as an article.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// 1 to [`LONGEST_TITLE`] characters on one line, at least one of them visible.
    pub title: String,
    /// 1 to [`LONGEST_CONTENT`] characters, likewise, on any number of lines.
    pub content: String,
}

impl Draft {
    /// Reads a body.
    ///
    /// # Errors
    /// 422 with every field that is wrong.
    pub fn read(mut body: JsonObject) -> Result<Draft, Problem> {
        let title = body.text("title", 1..=LONGEST_TITLE);
        let content = body.lines("content", 1..=LONGEST_CONTENT);
        let (title, content) = body.finish((title, content))?;
        Ok(Draft { title, content })
    }

    /// The article it becomes for this user, now.
    pub fn of(self, author: UserId) -> NewArticle {
        let Draft { title, content } = self;
        NewArticle { author, title, content, created_at_ms: now_ms() }
    }
}

/// Reads the body of a change: fields that are not there stay as they are.
pub(super) fn edit(mut body: JsonObject) -> Result<Edit, Problem> {
    let title = body.optional("title", |body, name| body.text(name, 1..=LONGEST_TITLE));
    let content = body.optional("content", |body, name| body.lines(name, 1..=LONGEST_CONTENT));
    body.finish(())?;
    Ok(Edit { title, content })
}

/// Reads a comment of this user, made now.
pub(super) fn comment(
    mut body: JsonObject,
    article: ArticleId,
    author: UserId,
) -> Result<NewComment, Problem> {
    let content = body.lines("content", 1..=LONGEST_COMMENT);
    let content = body.finish(content)?;
    Ok(NewComment { article, author, content, created_at_ms: now_ms() })
}
