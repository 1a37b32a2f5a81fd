//! Bodies of requests, checked.

use super::types::{ArticleId, Edit, NewArticle, NewComment};
use crate::accounts::UserId;
use crate::http::json::table::{Asked, Line, Lines, required, table};
use crate::http::rfc3339::now_ms;
use crate::http::{JsonObject, Problem};

table! {
    /// Contents of an article. In a change, members that are missing or null stay unchanged.
    pub(super) struct Fields: NewArticleBody (All), ArticleChangesBody (Part);
    /// Title, on one line.
    title: Line = required("title", Line(1..=100), "망원동에 빵집이 생겼어요");
    /// Content, on any number of lines.
    content: Lines = required("content", Lines(1..=10_000), "시장 북문 옆입니다.\n아침 여덟 시에 열어요.");
}

table! {
    /// A comment to be written.
    pub(super) struct CommentFields: NewCommentBody (All);
    /// Content, on any number of lines.
    content: Lines = required("content", Lines(1..=1000), "소금빵이 맛있어요!");
}

/// Reads an article of this user, made now.
pub(crate) fn article(mut body: JsonObject, author: UserId) -> Result<NewArticle, Problem> {
    let Fields { title, content } = Fields::read(&mut body, Asked::All);
    let (title, content) = body.finish((title, content))?;
    Ok(NewArticle { author, title, content, created_at_ms: now_ms() })
}

/// Reads the body of a change: fields that are not there stay as they are.
pub(crate) fn edit(mut body: JsonObject) -> Result<Edit, Problem> {
    let Fields { title, content } = Fields::read(&mut body, Asked::Part);
    body.finish(())?;
    Ok(Edit { title, content })
}

/// Reads a comment of this user, made now.
pub(crate) fn comment(
    mut body: JsonObject,
    article: ArticleId,
    author: UserId,
) -> Result<NewComment, Problem> {
    let CommentFields { content } = CommentFields::read(&mut body, Asked::All);
    let content = body.finish(content)?;
    Ok(NewComment { article, author, content, created_at_ms: now_ms() })
}
