//! Columns of trends: `avg`, `p(95)`, ….

use crate::metrics::Histogram;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum TrendStat {
    Avg,
    Min,
    Med,
    Max,
    Count,
    /// Percentile, 0–100.
    Percentile(f64),
}

impl TrendStat {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            "avg" => Some(Self::Avg),
            "min" => Some(Self::Min),
            "med" => Some(Self::Med),
            "max" => Some(Self::Max),
            "count" => Some(Self::Count),
            _ => {
                let number = name.strip_prefix("p(")?.strip_suffix(')')?;
                let plain =
                    !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
                let percentile: f64 = plain.then(|| number.parse().ok()).flatten()?;
                (0.0..=100.0).contains(&percentile).then_some(Self::Percentile(percentile))
            }
        }
    }

    pub(crate) fn value_in(self, histogram: &Histogram) -> f64 {
        match self {
            Self::Avg => histogram.mean(),
            Self::Min => histogram.min(),
            Self::Med => histogram.quantile(0.5),
            Self::Max => histogram.max(),
            Self::Count => histogram.count() as f64,
            Self::Percentile(percentile) => histogram.quantile(percentile / 100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_k6_names_are_statistics() {
        assert_eq!(TrendStat::parse("p(99.9)"), Some(TrendStat::Percentile(99.9)));
        for name in ["", "mean", "p()", "p(101)", "p(-1)", "p(1e1)", "p(5", "p95"] {
            assert_eq!(TrendStat::parse(name), None, "{name}");
        }
    }
}
