//! Libraries that scripts import from `jslib.k6.io`, written anew and built in: a run needs no
//! network, and no version of theirs can change under it.

/// What the addresses of `k6-utils` begin with; a version and `/index.js` follow.
const UTILS: &str = "https://jslib.k6.io/k6-utils/";

/// The functions of `k6-utils` that need nothing of the run.
const UTILS_SOURCE: &str = include_str!("k6_utils.js");

/// Those that look at the stages of the running scenario.
const STAGES_SOURCE: &str = include_str!("k6_utils_stages.js");

/// Whether `address` is that of a library that is built in.
pub(super) fn is_built_in(address: &str) -> bool {
    let version = address.strip_prefix(UTILS).and_then(|rest| rest.strip_suffix("/index.js"));
    version.is_some_and(|version| {
        !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    })
}

/// The text of a built-in library.
pub(super) fn source(address: &str) -> Option<String> {
    is_built_in(address).then(|| format!("{STAGES_SOURCE}\n{UTILS_SOURCE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_of_k6_utils_is_built_in_and_nothing_else_is() {
        assert!(is_built_in("https://jslib.k6.io/k6-utils/1.4.0/index.js"));
        for address in [
            "https://jslib.k6.io/k6-utils//index.js",
            "https://jslib.k6.io/k6-utils/1.4.0/other.js",
            "https://jslib.k6.io/k6-utils/../x/index.js",
            "https://jslib.k6.io/k6chaijs/4.3.4.3/index.js",
            "https://evil.example/k6-utils/1.4.0/index.js",
        ] {
            assert!(!is_built_in(address), "{address}");
        }
    }
}
