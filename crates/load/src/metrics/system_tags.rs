//! Which of the tags that the engine sets are on values (`systemTags`).

/// Their names, in k6's order. The first 14 are set unless the options say otherwise.
const NAMES: [&str; 18] = [
    "proto", "subproto", "status", "method", "url", "name", "group", "check", "error",
    "error_code", "tls_version", "scenario", "service", "expected_response", "iter", "vu",
    "ocsp_status", "ip",
];

/// Number of the tags of [`NAMES`] that are on by default.
const DEFAULT_COUNT: usize = 14;

/// Tags whose values are too many for a series of their own: they are metadata of single values.
const METADATA: [&str; 2] = ["iter", "vu"];

/// A set of tags, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemTags(u32);

impl Default for SystemTags {
    fn default() -> Self {
        Self((1 << DEFAULT_COUNT) - 1)
    }
}

impl SystemTags {
    /// The empty set.
    pub(crate) const NONE: Self = Self(0);

    /// The set and the tag of this name; `None` when it is no tag's.
    pub(crate) fn with(self, name: &str) -> Option<Self> {
        position(name).map(|bit| Self(self.0 | 1 << bit))
    }

    /// The set without one of its tags.
    pub(crate) fn without(self, name: &str) -> Self {
        position(name).map_or(self, |bit| Self(self.0 & !(1 << bit)))
    }

    /// Whether a tag is set. Keys that are no system tags are a script's own.
    pub(crate) fn allows(self, key: &str) -> bool {
        self == Self::default() || position(key).is_none_or(|bit| self.0 & (1 << bit) != 0)
    }

    /// Whether the set has this system tag.
    pub(crate) fn has(self, name: &str) -> bool {
        position(name).is_some_and(|bit| self.0 & (1 << bit) != 0)
    }

    /// All names of the set, by the alphabet.
    pub(crate) fn names(self) -> Vec<&'static str> {
        let mut names: Vec<_> = NAMES.into_iter().filter(|name| self.has(name)).collect();
        names.sort_unstable();
        names
    }

    /// The names of those that are tags and not metadata, by the alphabet.
    pub(crate) fn columns(self) -> Vec<&'static str> {
        let mut names = self.names();
        names.retain(|name| !METADATA.contains(name));
        names
    }
}

fn position(name: &str) -> Option<usize> {
    NAMES.iter().position(|known| *known == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_not_set_and_own_tags_always_are() {
        let few =
            ["status", "vu"].into_iter().try_fold(SystemTags::NONE, SystemTags::with).unwrap();
        assert!(few.allows("status") && few.allows("own") && !few.allows("url"));
        assert_eq!(few.columns(), ["status"]);
        assert!(!SystemTags::default().has("ip") && SystemTags::default().has("check"));
        assert_eq!(few.with("urls"), None);
    }
}
