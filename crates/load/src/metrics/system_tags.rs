//! Tags that the engine sets on values (`systemTags`).

/// Names in k6's order.
const NAMES: [&str; 18] = [
    "proto", "subproto", "status", "method", "url", "name", "group", "check", "error",
    "error_code", "tls_version", "scenario", "service", "expected_response", "iter", "vu",
    "ocsp_status", "ip",
];

/// Number of tags, the first of [`NAMES`], set by default.
const DEFAULT_COUNT: usize = 14;

/// Tags with too many values for a series; they are metadata of single values.
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
    pub(crate) const NONE: Self = Self(0);

    /// Adds a tag; `None` for an unknown name.
    pub(crate) fn with(self, name: &str) -> Option<Self> {
        position(name).map(|bit| Self(self.0 | 1 << bit))
    }

    /// Removes a tag.
    pub(crate) fn without(self, name: &str) -> Self {
        position(name).map_or(self, |bit| Self(self.0 & !(1 << bit)))
    }

    /// True if a tag is set; tags of scripts always are.
    pub(crate) fn allows(self, key: &str) -> bool {
        self == Self::default() || position(key).is_none_or(|bit| self.0 & (1 << bit) != 0)
    }

    /// True if a system tag is set.
    pub(crate) fn has(self, name: &str) -> bool {
        position(name).is_some_and(|bit| self.0 & (1 << bit) != 0)
    }

    /// Sorted names.
    pub(crate) fn names(self) -> Vec<&'static str> {
        let mut names: Vec<_> = NAMES.into_iter().filter(|name| self.has(name)).collect();
        names.sort_unstable();
        names
    }

    /// Sorted names without metadata.
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
