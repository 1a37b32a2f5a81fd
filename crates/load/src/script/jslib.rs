//! Libraries that scripts import from `jslib.k6.io`, built in: a run needs no network, and no version of theirs can change
//! under it. They are written anew; only Papa Parse, and Chai in k6chaijs, are as npm has them.

/// What the addresses of all libraries begin with; name, version and `/index.js` follow.
const HOST: &str = "https://jslib.k6.io/";

/// The functions of `k6-utils` that need nothing of the run.
const UTILS: &str = include_str!("jslib/k6_utils.js");

/// Those that look at the stages of the running scenario.
const STAGES: &str = include_str!("jslib/k6_utils_stages.js");

const SUMMARY: &str = include_str!("jslib/k6_summary.js");

const PAPAPARSE: &str = include_str!("jslib/papaparse.min.js");

/// What scripts import from a CommonJS module whose exports have these names.
const PAPAPARSE_EXPORTS: &str =
    "export default module.exports; export const { parse, unparse } = module.exports;";

const FORMDATA: &str = include_str!("jslib/formdata.js");

const HTTPX: &str = include_str!("jslib/httpx.js");

/// Chai and Papa Parse are CommonJS modules.
const COMMONJS: &str = "const module = { exports: {} }, exports = module.exports;";

const CHAI: &str = include_str!("jslib/chai.min.js");

const K6_CHAI: &str = include_str!("jslib/k6chaijs.js");

/// The name of the library at `address`; empty when it is none.
fn name(address: &str) -> &str {
    let path = address.strip_prefix(HOST).and_then(|rest| rest.strip_suffix("/index.js"));
    let Some((name, version)) = path.and_then(|path| path.split_once('/')) else { return "" };
    let is_version =
        !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_version { name } else { "" }
}

/// Whether it is the library `url`, which is not written in JavaScript alone.
pub(super) fn is_url(address: &str) -> bool {
    name(address) == "url"
}

/// The parts of the library at `address`; none when it is not built in. All versions are the same.
fn parts(address: &str) -> &'static [&'static str] {
    match name(address) {
        "formdata" => &[FORMDATA],
        "httpx" => &[HTTPX],
        "k6-utils" => &[STAGES, UTILS],
        "k6chaijs" => &[COMMONJS, CHAI, K6_CHAI],
        "k6-summary" => &[SUMMARY],
        "papaparse" => &[COMMONJS, PAPAPARSE, PAPAPARSE_EXPORTS],
        _ => &[],
    }
}

/// Whether `address` is that of a library that is built in.
pub(super) fn is_built_in(address: &str) -> bool {
    is_url(address) || !parts(address).is_empty()
}

/// The text of a built-in library.
pub(super) fn source(address: &str) -> String {
    parts(address).join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_of_some_libraries_is_built_in_and_nothing_else_is() {
        for name in [
            "k6-utils/1.4.0", "k6-summary/0.0.2", "k6-summary/0.1.0", "papaparse/5.1.1",
            "url/1.0.0", "k6chaijs/4.3.4.3",
        ] {
            assert!(is_built_in(&format!("https://jslib.k6.io/{name}/index.js")), "{name}");
        }
        for address in [
            "https://jslib.k6.io/k6-utils//index.js",
            "https://jslib.k6.io/k6-utils/1.4.0/other.js",
            "https://jslib.k6.io/k6-utils/../x/index.js",
            "https://jslib.k6.io/k6-testing/0.5.0/index.js",
            "https://evil.example/k6-utils/1.4.0/index.js",
        ] {
            assert!(!is_built_in(address), "{address}");
        }
    }
}
