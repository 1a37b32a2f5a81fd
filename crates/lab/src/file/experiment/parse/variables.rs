//! Variables for the script that it does not read: a slip in a name would compare a load with
//! itself.

use toml::de::DeTable;

use super::super::reader::Mistakes;

const ENV: &str = "__ENV";

/// Reports names in `env` and `load_env` that the scripts surely do not read. Where they compute
/// names, or hand `__ENV` on, nothing is sure.
pub fn check(top: &DeTable<'_>, scripts: &str, mistakes: &Mistakes<'_>) {
    if scripts.is_empty() || scripts.match_indices(ENV).any(|(at, _)| !is_plain(scripts, at)) {
        return;
    }
    let load = inner(top, "load");
    let quick = load.and_then(|load| inner(load, "quick"));
    let env = [load, quick].into_iter().flatten().filter_map(|load| inner(load, "env"));
    let variants = inner(top, "variants").into_iter().flatten();
    let variants = variants.filter_map(|(_, variant)| variant.get_ref().as_table());
    let own = variants.filter_map(|variant| inner(variant, "load_env"));
    for (name, _) in env.chain(own).flatten() {
        let text: &str = name.get_ref();
        if !has_word(scripts, text) {
            let message = format!("the script reads no `{ENV}.{text}`");
            mistakes.add(name.span().start, message);
        }
    }
}

fn inner<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> Option<&'t DeTable<'i>> {
    table.get(key)?.get_ref().as_table()
}

/// Whether a variable is read there by its name, as `__ENV.NAME` or `__ENV["NAME"]`.
fn is_plain(scripts: &str, at: usize) -> bool {
    let rest = scripts[at + ENV.len()..].trim_start();
    let rest = rest.strip_prefix('?').unwrap_or(rest);
    let named = rest.strip_prefix('.').unwrap_or(rest).trim_start();
    match named.strip_prefix('[') {
        Some(key) => key.trim_start().starts_with(['\'', '"']),
        None => rest.starts_with('.'),
    }
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of names that are not read.
    fn lines(scripts: &str) -> Vec<usize> {
        let text = "[load]\nenv = { RATE = \"1\" }\n[load.quick]\nenv.SIZE = \"2\"\n\
                    [variants.a]\nload_env = { RATE = \"3\" }\n[variants.b]\n";
        let table = DeTable::parse(text).unwrap();
        let mistakes = Mistakes::new(text);
        check(table.get_ref(), scripts, &mistakes);
        mistakes.into_sorted().iter().map(|mistake| mistake.line).collect()
    }

    #[test]
    fn names_that_nothing_reads_are_told_wherever_they_stand() {
        assert!(lines("__ENV.RATE; __ENV['SIZE']").is_empty());
        assert!(lines("__ENV?.RATE; __ENV?.[\"SIZE\"]").is_empty());
        assert_eq!(lines("__ENV.RATES; __ENV.SIZE"), [2, 6]);
        assert_eq!(lines("__ENV.RATE; __ENV.SIZE_MAX"), [4]);
        assert_eq!(lines("nothing()"), [2, 4, 6]);
    }

    #[test]
    fn where_names_are_computed_nothing_is_sure() {
        for scripts in
            ["const { RATE, ...rest } = __ENV;", "__ENV[`${a}`]", "Object.keys(__ENV)", ""]
        {
            assert!(lines(scripts).is_empty(), "{scripts}");
        }
    }
}
