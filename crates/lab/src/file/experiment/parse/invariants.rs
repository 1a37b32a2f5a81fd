//! Reads `[values.NAME]` and `[[invariants]]`.

use super::super::reader::Reader;
use super::super::{Invariant, Limit, NamedValue, Source, Target, Variant};
use super::{check_metric, database_address, quoted};
use crate::file::expression::Expression;
use crate::file::outline::Outline;
use crate::journal::record::LimitKind;
use crate::load::metric::LoadMetric;
use crate::observe::database::{Addresses, Engine};
use crate::observe::prometheus::Selector;

const SOURCES: [&str; 6] = ["sql", "http", "metrics", "script", "command", "value"];

/// Names that formulas may use.
struct Scope<'s> {
    values: &'s [String],
    variants: &'s [Variant],
    /// Databases of variants without addresses of their own.
    shared: &'s Addresses,
    outline: Option<&'s Outline>,
}

pub(crate) fn all(
    values: Option<Reader<'_>>,
    invariants: Vec<Reader<'_>>,
    variants: &[Variant],
    shared: &Addresses,
    outline: Option<&Outline>,
) -> (Vec<NamedValue>, Vec<Invariant>) {
    let mut named = Vec::new();
    for (name, mut reader) in values.map(|values| values.tables()).unwrap_or_default() {
        let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_word {
            let message = format!("a value's name must be letters, digits and `_`, not {name:?}");
            reader.complain(message);
        }
        let scope = Scope { values: &[], variants, shared, outline };
        let source = source(&mut reader, &scope, None);
        if let Some(Source::Value(_)) = source {
            let known = quoted(&SOURCES[..5]);
            reader.complain(format!("[values.{name}] is taken, not computed: {known}"));
        }
        reader.finish(&[]);
        named.extend(source.map(|source| NamedValue { name, source }));
    }
    let known: Vec<String> = named.iter().map(|value| value.name.clone()).collect();
    let mut found: Vec<Invariant> = Vec::new();
    let scope = Scope { values: &known, variants, shared, outline };
    for mut reader in invariants {
        let Some(invariant) = invariant(&mut reader, &scope) else { continue };
        if found.iter().any(|other| other.name == invariant.name) {
            reader.complain(format!("two invariants have the name {:?}", invariant.name));
        }
        found.push(invariant);
    }
    (named, found)
}

fn invariant(reader: &mut Reader<'_>, scope: &Scope<'_>) -> Option<Invariant> {
    let name = reader.required_text("name");
    let variants = reader.words("variants");
    let known: Vec<&str> = scope.variants.iter().map(|variant| variant.name.as_str()).collect();
    for name in variants.iter().flatten().filter(|name| !known.contains(&name.as_str())) {
        let why = format!("names no variant `{name}`: accepted are {}", quoted(&known));
        reader.refuse("variants", why);
    }
    let source = source(reader, scope, variants.as_deref());
    let is_computed = matches!(source, Some(Source::Value(_)));
    let change = reader.boolean("change");
    if change.is_some() && is_computed {
        let message = "`change` in [invariants] needs a value taken before the load; a `value` \
                       is computed after it";
        reader.complain(message);
    }
    let limits = limits(reader, scope, !is_computed);
    reader.finish(&[]);
    Some(Invariant {
        name: name?,
        source: source?,
        change: change.unwrap_or(false),
        limits: limits?,
        variants,
    })
}

fn limits(reader: &mut Reader<'_>, scope: &Scope<'_>, has_before: bool) -> Option<Vec<Limit>> {
    let kinds = [
        ("equals", LimitKind::Equals),
        ("at_most", LimitKind::AtMost),
        ("at_least", LimitKind::AtLeast),
    ];
    if !kinds.iter().any(|(key, _)| reader.has(key)) {
        let message = format!("[invariants] needs one of {}", quoted(&kinds.map(|(key, _)| key)));
        reader.complain(message);
    }
    let mut limits = Vec::new();
    for (key, bound) in kinds {
        let Some(formula) = reader.formula(key) else { continue };
        check_names(&formula, reader, key, scope, has_before);
        limits.push(Limit { bound, formula });
    }
    (!limits.is_empty()).then_some(limits)
}

fn source(reader: &mut Reader<'_>, scope: &Scope<'_>, chosen: Option<&[String]>) -> Option<Source> {
    let (sql, mysql) = (reader.text("sql"), reader.text("mysql"));
    let (command, redis) = (reader.words("command"), reader.text("redis"));
    let (http, json) = (reader.text("http"), reader.text("json"));
    let metrics = reader.text("metrics");
    let script = reader.words("script");
    let value = reader.formula("value");
    let reader = &*reader;
    let pairs = [("mysql", "sql", "a query"), ("redis", "command", "such as [\"SCARD\", \"key\"]")];
    for (key, other, what) in pairs {
        if reader.has(key) && !reader.has(other) {
            reader.complain(format!("`{key}` in {} needs `{other}`, {what}", reader.title()));
            return None;
        }
    }
    if SOURCES.iter().filter(|key| reader.has(key)).count() != 1 {
        reader.complain(format!("{} needs exactly one of {}", reader.title(), quoted(&SOURCES)));
        return None;
    }
    if reader.has("json") != reader.has("http") {
        let message = "`http` and `json` belong together: an address, and where in its answer \
                       the number is";
        reader.complain(message);
    }
    let concerned = |variant: &&Variant| chosen.is_none_or(|chosen| chosen.contains(&variant.name));
    let lacking = |keys: &str, has: &dyn Fn(&Variant) -> bool, key: &str| {
        if let Some(variant) = scope.variants.iter().filter(concerned).find(|v| !has(v)) {
            reader.wrong(key, format!("this needs {keys} in [variants.{}]", variant.name));
        }
    };
    let is_served = |variant: &Variant| matches!(variant.target, Target::Serve(_));
    let beside = |variant: &Variant| variant.databases.or(scope.shared);
    if let (Some(sql), Some(mysql)) = (&sql, mysql) {
        let mysql = database_address(reader, Engine::Mysql, mysql, false)?;
        return Some(Source::Mysql { sql: sql.clone(), mysql });
    }
    if let Some(sql) = sql {
        let has = |variant: &Variant| {
            variant.database.is_some() || is_served(variant) || beside(variant).mysql.is_some()
        };
        lacking("`mysql` beside it, or `database` or `mysql`", &has, "sql");
        return Some(Source::Sql(sql));
    }
    if let Some(command) = command {
        if redis.is_none() {
            let has = |variant: &Variant| beside(variant).redis.is_some();
            lacking("`redis` beside it, in [observe] or", &has, "command");
        }
        let redis = redis.and_then(|redis| database_address(reader, Engine::Redis, redis, false));
        return Some(Source::Redis { command, redis });
    }
    if let (Some(http), Some(json)) = (http, json) {
        if !http.starts_with('/')
            && let Err(why) = madang_stack::http::Url::parse(&http)
        {
            let why = format!("`http` must be a path such as `/v1/items` or an address: {why}");
            reader.wrong("http", why);
        }
        return Some(Source::Http { http, json });
    }
    if let Some(metrics) = metrics {
        let has = |variant: &Variant| variant.metrics.is_some() || is_served(variant);
        lacking("`metrics`", &has, "metrics");
        let series = Selector::parse(&metrics);
        let series = series.map_err(|why| reader.wrong("metrics", why.to_string()));
        return series.ok().map(Source::Metrics);
    }
    if let Some(formula) = value {
        check_names(&formula, reader, "value", scope, false);
        return Some(Source::Value(formula));
    }
    script.map(Source::Script)
}

fn check_names(
    formula: &Expression,
    reader: &Reader<'_>,
    key: &str,
    scope: &Scope<'_>,
    has_before: bool,
) {
    for name in formula.names() {
        let (kind, rest) = name.split_once('.').unwrap_or((name, ""));
        match (kind, rest) {
            ("before", "") if has_before => {}
            ("before" | "after", rest) if scope.values.iter().any(|value| value == rest) => {}
            ("load", rest) if !rest.is_empty() => match LoadMetric::parse(rest) {
                Ok(metric) => check_metric(scope.outline, &metric, reader, key),
                Err(why) => reader.wrong(key, why.to_string()),
            },
            _ => {
                let own = if has_before { "`before`, " } else { "" };
                let mut values = String::new();
                for value in scope.values {
                    values += &format!("`before.{value}`, `after.{value}`, ");
                }
                let message = format!(
                    "unknown name `{name}` in `{formula}`: there are {own}{values}and \
                     `load.METRIC`, such as `load.http_reqs` or a counter of the script"
                );
                reader.wrong(key, message);
            }
        }
    }
}
