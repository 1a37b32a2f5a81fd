//! `If-Match` and `If-None-Match` of writes (RFC 9110, 13.1.1 and 13.1.2): change it only if it is still
//! what I have read.
//!
//! A tag names the bytes of one answer: its encoding, and the counts of the moment, are in it. Nobody who
//! changes an article wants to be refused because somebody liked it meanwhile, or because a proxy asked
//! for another encoding. So a tag begins with the *version* of the resource, up to the first `.` or `-`,
//! and conditions compare that alone. The version is a hash of all that the resource itself says. It is
//! compared in the transaction that writes, so nothing comes between the look and the write.

use super::Problem;
use crate::accounts::UserId;
use http::header::{AsHeaderName, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue};

/// The conditions of a request. Most have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    matches: Option<Tags>,
    matches_none: Option<Tags>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Tags {
    /// `*`: whatever there is.
    Any,
    /// Versions of tags. One that is no tag is left out: it is that of nothing.
    Of(Vec<Box<str>>),
}

impl Conditions {
    /// Those of a request with these headers.
    pub fn of(headers: &HeaderMap) -> Self {
        // A weak tag never matches here, by definition (RFC 9110, 8.8.3.2).
        let matches = Tags::of(headers, IF_MATCH, |tag| tag);
        let matches_none =
            Tags::of(headers, IF_NONE_MATCH, |tag| tag.strip_prefix("W/").unwrap_or(tag));
        Self { matches, matches_none }
    }

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.matches.is_none() && self.matches_none.is_none()
    }

    /// Whether they hold for something that exists, in this version; nothing when it has no tags.
    pub fn hold(&self, version: Option<&str>) -> bool {
        let has = |tags: &Tags| match tags {
            Tags::Any => true,
            Tags::Of(versions) => versions.iter().any(|tag| Some(&**tag) == version),
        };
        self.matches.as_ref().is_none_or(has) && !self.matches_none.as_ref().is_some_and(has)
    }
}

impl Tags {
    fn of(headers: &HeaderMap, name: impl AsHeaderName, opaque: fn(&str) -> &str) -> Option<Self> {
        let mut lines = headers.get_all(name).into_iter().peekable();
        lines.peek()?;
        let lines: Vec<&str> = lines.filter_map(|line: &HeaderValue| line.to_str().ok()).collect();
        if lines.iter().any(|line| line.trim() == "*") {
            return Some(Tags::Any);
        }
        // No tag of ours has a comma in it.
        let tags = lines.iter().flat_map(|line| line.split(',')).map(str::trim).map(opaque);
        let inner = tags.filter_map(|tag| tag.strip_prefix('"')?.strip_suffix('"'));
        Some(Tags::Of(
            inner.filter_map(|tag| tag.split(['.', '-']).next()).map(Into::into).collect(),
        ))
    }
}

/// Who asks for a write to a `T`, and on what condition.
pub struct By<T> {
    /// The user who asks.
    pub user: UserId,
    holds: Option<Holds<T>>,
}

type Holds<T> = Box<dyn Fn(T) -> bool + Send>;

impl<T> By<T> {
    /// This user, if `conditions` hold for the version of what there is then.
    pub fn new(
        user: UserId,
        conditions: Conditions,
        version: impl Fn(T) -> Option<Box<str>> + Send + 'static,
    ) -> Self {
        if conditions.is_empty() {
            return Self { user, holds: None };
        }
        let holds = move |now| conditions.hold(version(now).as_deref());
        Self { user, holds: Some(Box::new(holds)) }
    }

    /// Whether the condition holds for what there is `now`, which is looked at only if there is one. For
    /// the transaction that writes, once it is known that the user may.
    pub fn holds<E>(&self, now: impl FnOnce() -> Result<Option<T>, E>) -> Result<bool, E> {
        let Some(holds) = &self.holds else { return Ok(true) };
        // What is not there is for the write itself to find out.
        Ok(now()?.is_none_or(holds))
    }

    /// Whether it may be done to what is this `owner`'s, or nobody's, or not there.
    pub fn may<E>(
        &self,
        owner: Option<Option<UserId>>,
        now: impl FnOnce() -> Result<Option<T>, E>,
    ) -> Result<Result<(), Refusal>, E> {
        Ok(match owner {
            None => Err(Refusal::Absent),
            Some(owner) if owner != Some(self.user) => Err(Refusal::NotOwner),
            Some(_) if !self.holds(now)? => Err(Refusal::Outdated),
            Some(_) => Ok(()),
        })
    }
}

/// A user without a condition.
impl<T> From<UserId> for By<T> {
    fn from(user: UserId) -> Self {
        Self { user, holds: None }
    }
}

crate::opaque_debug!(By<T>, T);

/// Who takes a `T` away. To change one is for its owner alone.
#[derive(Debug)]
pub enum Remover<T> {
    /// A user, if it is theirs and their condition holds.
    User(By<T>),
    /// The operator, whoever's it is. Nothing that a request carries becomes one.
    Operator,
}

impl<T> Remover<T> {
    /// As [`By::may`].
    pub fn may<E>(
        &self,
        owner: Option<Option<UserId>>,
        now: impl FnOnce() -> Result<Option<T>, E>,
    ) -> Result<Result<(), Refusal>, E> {
        match self {
            Self::User(by) => by.may(owner, now),
            Self::Operator => Ok(owner.map(drop).ok_or(Refusal::Absent)),
        }
    }
}

impl<T> From<By<T>> for Remover<T> {
    fn from(by: By<T>) -> Self {
        Self::User(by)
    }
}

impl<T> From<UserId> for Remover<T> {
    fn from(user: UserId) -> Self {
        Self::User(user.into())
    }
}

/// Why something was not done that only the owner of what is there may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is somebody else's, or nobody's any more.
    NotOwner,
    /// There is no such thing, or no longer.
    Absent,
    /// It is not what the condition asks for.
    Outdated,
}

impl Refusal {
    /// The answer.
    pub fn answer(
        self,
        not_owner: impl FnOnce() -> Problem,
        absent: impl FnOnce() -> Problem,
    ) -> Problem {
        match self {
            Self::NotOwner => not_owner(),
            Self::Absent => absent(),
            Self::Outdated => Problem::precondition_failed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(headers: &[(http::HeaderName, &'static str)]) -> Conditions {
        let headers = headers.iter().cloned().map(|(n, v)| (n, HeaderValue::from_static(v)));
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value);
        }
        Conditions::of(&map)
    }

    #[test]
    fn a_tag_matches_by_its_version() {
        let hold = [
            "\"a1\"",
            "\"a1-gzip\"",
            "\"a1.likeCount:3.liked:null-gzip\"",
            "\"b2\", \"a1-br\"",
            "*",
        ];
        let not = ["W/\"a1\"", "\"a\"", "\"a12\"", "a1", "\"\"", "", "\"*\""];
        let cases = hold.map(|given| (given, true)).into_iter();
        for (given, holds) in cases.chain(not.map(|given| (given, false))) {
            assert_eq!(conditions(&[(IF_MATCH, given)]).hold(Some("a1")), holds, "{given}");
            // A tag that a proxy has weakened is still known.
            let none = !holds && given != "W/\"a1\"";
            assert_eq!(conditions(&[(IF_NONE_MATCH, given)]).hold(Some("a1")), none, "{given}");
        }
    }

    #[test]
    fn all_lines_and_both_headers_count() {
        let lines = [(IF_MATCH, "\"x\""), (IF_MATCH, "\"a1\"")];
        assert!(conditions(&lines).hold(Some("a1")));
        assert!(!conditions(&[(IF_MATCH, "*"), (IF_NONE_MATCH, "\"a1\"")]).hold(Some("a1")));
        assert!(conditions(&[]).hold(Some("a1")) && conditions(&[]).hold(None));
    }

    #[test]
    fn what_has_no_tag_is_matched_by_the_star_alone() {
        assert!(conditions(&[(IF_MATCH, "*")]).hold(None));
        assert!(!conditions(&[(IF_MATCH, "\"a1\"")]).hold(None));
        assert!(conditions(&[(IF_NONE_MATCH, "\"a1\"")]).hold(None));
        assert!(!conditions(&[(IF_NONE_MATCH, "*")]).hold(None));
    }
}
