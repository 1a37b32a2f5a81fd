//! `If-Match` and `If-None-Match` of writes (RFC 9110, 13.1.1 and 13.1.2). They compare only versions of a resource,
//! in the transaction of the write; an ETag begins with one, up to the first `.` or `-`
//! (docs/decisions/0010-etag-version.md).

use super::Problem;
use crate::accounts::UserId;
use http::header::{AsHeaderName, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue};

/// The conditions of a request; mostly none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conditions {
    matches: Option<Tags>,
    matches_none: Option<Tags>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Tags {
    /// `*`: any version.
    Any,
    /// Versions of ETags. Anything else is left out: it matches nothing.
    Of(Vec<Box<str>>),
}

impl Conditions {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        // A weak tag never matches here, by definition (RFC 9110, 8.8.3.2).
        let matches = Tags::of(headers, IF_MATCH, |tag| tag);
        let matches_none =
            Tags::of(headers, IF_NONE_MATCH, |tag| tag.strip_prefix("W/").unwrap_or(tag));
        Self { matches, matches_none }
    }

    fn is_empty(&self) -> bool {
        self.matches.is_none() && self.matches_none.is_none()
    }

    /// True if they hold for an existing resource of this version; `None` = it has no ETags.
    pub(crate) fn hold(&self, version: Option<&str>) -> bool {
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
        // The ETags of this service contain no comma.
        let tags = lines.iter().flat_map(|line| line.split(',')).map(str::trim).map(opaque);
        let inner = tags.filter_map(|tag| tag.strip_prefix('"')?.strip_suffix('"'));
        Some(Tags::Of(
            inner.filter_map(|tag| tag.split(['.', '-']).next()).map(Into::into).collect(),
        ))
    }
}

/// The user and the condition of a write to a `T`.
pub struct By<T> {
    pub(crate) user: UserId,
    holds: Option<Holds<T>>,
}

type Holds<T> = Box<dyn Fn(T) -> bool + Send>;

impl<T> By<T> {
    /// `conditions` are checked against the version of the current `T`.
    pub(crate) fn new(
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

    /// True if the condition holds for the current `T`, which is read only if there is a condition. Called in the
    /// transaction of the write, after the check of the user's permission.
    pub(crate) fn holds<E>(&self, now: impl FnOnce() -> Result<Option<T>, E>) -> Result<bool, E> {
        let Some(holds) = &self.holds else { return Ok(true) };
        // The write itself reports a missing item.
        Ok(now()?.is_none_or(holds))
    }

    /// Checks that the item exists, belongs to the user and satisfies the condition. `owner` is `None` when there is
    /// no item and `Some(None)` when it has no owner.
    pub(crate) fn may<E>(
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

/// The remover of a `T`. Only its owner can change it, but the operator can remove it.
#[derive(Debug)]
pub enum Remover<T> {
    /// The owner, if the condition holds.
    User(By<T>),
    /// The operator; no request becomes one.
    Operator,
}

impl<T> Remover<T> {
    /// As [`By::may`].
    pub(crate) fn may<E>(
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

/// Reason why a change that only the owner may make was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The item belongs to another user, or to nobody any more.
    NotOwner,
    /// The item does not exist, or no longer.
    Absent,
    /// The condition does not hold.
    Outdated,
}

impl Refusal {
    pub(crate) fn answer(
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
            // A tag weakened by a proxy still matches.
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
