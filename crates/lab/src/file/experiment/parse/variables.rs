//! Reports variables that the script does not read: with a misspelt name, a load would be compared with itself.

use std::collections::BTreeSet;

use toml::de::DeTable;

use super::super::reader::Mistakes;

/// Reports names in `env` and `load_env` that the script does not read.
pub(crate) fn check(top: &DeTable<'_>, known: &BTreeSet<String>, mistakes: &Mistakes<'_>) {
    let load = inner(top, "load");
    let quick = load.and_then(|load| inner(load, "quick"));
    let env = [load, quick].into_iter().flatten().filter_map(|load| inner(load, "env"));
    let variants = inner(top, "variants").into_iter().flatten();
    let variants = variants.filter_map(|(_, variant)| variant.get_ref().as_table());
    let own = variants.filter_map(|variant| inner(variant, "load_env"));
    for (name, _) in env.chain(own).flatten() {
        let text: &str = name.get_ref();
        if !known.contains(text) {
            let message = format!("the script reads no `__ENV.{text}`");
            mistakes.add(name.span().start, message);
        }
    }
}

fn inner<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> Option<&'t DeTable<'i>> {
    table.get(key)?.get_ref().as_table()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_nothing_reads_are_reported_wherever_they_stand() {
        let text = "[load]\nenv = { RATE = \"1\" }\n[load.quick]\nenv.SIZE = \"2\"\n\
                    [variants.a]\nload_env = { RATE = \"3\" }\n[variants.b]\n";
        let table = DeTable::parse(text).unwrap();
        let lines = |known: &[&str]| {
            let mistakes = Mistakes::new(text);
            let known = known.iter().map(|name| (*name).to_owned()).collect();
            check(table.get_ref(), &known, &mistakes);
            mistakes.into_sorted().iter().map(|mistake| mistake.line).collect::<Vec<_>>()
        };
        assert!(lines(&["RATE", "SIZE"]).is_empty());
        assert_eq!(lines(&["RATES", "SIZE"]), [2, 6]);
        assert_eq!(lines(&[]), [2, 4, 6]);
    }
}
