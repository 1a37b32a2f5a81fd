//! Invariants and the sources of their values.

use serde::{Serialize, Serializer};

use crate::file::expression::Expression;
use crate::journal::record::LimitKind;
use crate::observe::database::Address;
use crate::observe::prometheus::Selector;

/// A condition that must hold after every round.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Invariant {
    pub name: String,
    #[serde(flatten)]
    pub source: Source,
    /// Compares the change over the round instead of the value after it.
    pub change: bool,
    /// At least one.
    pub limits: Vec<Limit>,
    /// `None` for all variants.
    pub variants: Option<Vec<String>>,
}

/// A value for formulas, taken before and after each load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedValue {
    /// Formulas use `before.NAME` and `after.NAME`.
    pub name: String,
    #[serde(flatten)]
    pub source: Source,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limit {
    pub bound: LimitKind,
    #[serde(serialize_with = "as_text")]
    pub formula: Expression,
}

fn as_text<S: Serializer>(text: &impl std::fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(text)
}

/// Source of a number.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// First column of the first row of a query in the variant's SQLite, or else in the observed MySQL.
    Sql(String),
    #[serde(serialize_with = "as_text")]
    Metrics(Selector),
    Script(Vec<String>),
    /// A formula, evaluated after the load.
    #[serde(serialize_with = "as_text")]
    Value(Expression),
    /// As `Sql`, in another MySQL or MariaDB.
    #[serde(untagged)]
    Mysql {
        sql: String,
        mysql: Address,
    },
    #[serde(untagged)]
    Redis {
        command: Vec<String>,
        /// `None` for the observed one.
        #[serde(skip_serializing_if = "Option::is_none")]
        redis: Option<Address>,
    },
    #[serde(untagged)]
    Http {
        /// A path below the base URL, or a complete URL.
        http: String,
        /// Path of the number, such as `items.0.count` or `items.#`.
        json: String,
    },
}

/// Whole numbers up to 2^53 are exact as floating-point numbers.
pub(crate) const EXACT: f64 = 9_007_199_254_740_992.0;

impl Limit {
    /// Bounds are inclusive.
    pub fn holds(kind: LimitKind, value: f64, limit: f64) -> bool {
        // Counts and sums of whole numbers are exact; quotients may differ in the last digits.
        let is_exact = |number: f64| number.fract() == 0.0 && number.abs() <= EXACT;
        let equal = if is_exact(value) && is_exact(limit) {
            value == limit
        } else {
            (value - limit).abs() <= 1e-12 * value.abs().max(limit.abs())
        };
        match kind {
            LimitKind::Equals => equal,
            LimitKind::AtMost => equal || value < limit,
            LimitKind::AtLeast => equal || value > limit,
        }
    }
}

impl Invariant {
    fn formulas(&self) -> impl Iterator<Item = &Expression> {
        let own = match &self.source {
            Source::Value(formula) => Some(formula),
            _ => None,
        };
        self.limits.iter().map(|limit| &limit.formula).chain(own)
    }

    pub(crate) fn names(&self, is_meant: impl Fn(&str) -> bool) -> bool {
        self.formulas().any(|formula| formula.names().into_iter().any(&is_meant))
    }

    /// True if its own value before the load is needed.
    pub(crate) fn needs_before(&self) -> bool {
        self.change || self.names(|name| name == "before")
    }

    /// True if a formula uses figures of the load.
    pub(crate) fn counts_load(&self) -> bool {
        self.names(|name| name.starts_with("load."))
    }

    pub fn concerns(&self, variant: &str) -> bool {
        self.variants.as_ref().is_none_or(|variants| variants.iter().any(|name| name == variant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_include_themselves_and_counts_are_exact() {
        let holds = Limit::holds;
        assert!(holds(LimitKind::AtMost, 30.0, 30.0) && !holds(LimitKind::AtMost, 31.0, 30.0));
        assert!(holds(LimitKind::AtLeast, 30.0, 30.0) && !holds(LimitKind::AtLeast, 29.0, 30.0));
        assert!(holds(LimitKind::Equals, 0.1 + 0.2, 0.3));
        assert!(!holds(LimitKind::Equals, 4e9, 4e9 + 1.0), "one row in four thousand million");
        assert!(!holds(LimitKind::Equals, 2e12, 2e12 - 2.0), "two won of two million million");
        assert!(holds(LimitKind::Equals, 1e13 / 3.0, 1e13 / 3.0 + 0.001));
    }
}
