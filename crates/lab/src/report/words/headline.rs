//! Headlines of a report: the answer and the size of the difference.

use super::Language;
use crate::judge::answer::{self, Answer};
use crate::judge::metric::{self, Metric, Statistic};
use crate::judge::stats::Estimate;
use crate::judge::verdict::{Undecided, Verdict};
use crate::plan::Plan;
use crate::report::{Comparison, Row, ratio};

impl Language {
    pub fn answer_word(self, answer: Answer) -> &'static str {
        match (self, answer) {
            (Self::En, Answer::CannotTell) => "can't tell",
            (Self::En, answer) => answer.word(),
            (Self::Ko, Answer::Better) => "좋음",
            (Self::Ko, Answer::Worse) => "나쁨",
            (Self::Ko, Answer::Same) => "같음",
            (Self::Ko, Answer::CannotTell) => "판정 불가",
            (Self::Ko, Answer::Higher) => "높음",
            (Self::Ko, Answer::Lower) => "낮음",
        }
    }

    /// `WORSE: head needs 1.9 % more CPU per request (1.5–2.3 %, 8 pairs, 46 s)`.
    pub fn headline(self, plan: &Plan, variant: &str, row: &Row, seconds: f64) -> String {
        let (answer, metric) = (row.answer.unwrap_or(Answer::CannotTell), &row.metric);
        let Some((estimate, interval)) =
            row.comparison.estimate().and_then(|one| Some((one, one.interval?)))
        else {
            return self.without_interval(variant, row, answer);
        };
        let is_paired = plan.is_paired(metric);
        let basis = self.basis(estimate.blocks, is_paired, seconds);
        let itself = match (plan.calibration, answer) {
            (false, _) => "",
            (true, Answer::Same) => self.pick(
                " No difference from itself was detected, as expected.",
                " 자기 자신과 구별되지 않습니다. 정상입니다.",
            ),
            (true, Answer::CannotTell) => "",
            (true, _) => self.pick(
                " A difference from itself was detected: comparisons on this machine are not reliable.",
                " 자기 자신과 다르게 나타납니다. 여기에서 한 비교를 믿지 마세요.",
            ),
        };
        if let Some(why) = row.doubt {
            let word = self.pick("CANNOT TELL", "판정 불가");
            let (what, reason) = (self.figure(metric, variant), self.why(why));
            let seen = self.signed(interval);
            return self.pick(
                format!("{word}: {reason}. {what}: {seen} ({basis})."),
                format!("{word}: {reason}. {what}: {seen}({basis})."),
            );
        }
        let what = self.figure(metric, variant);
        match answer {
            Answer::Better | Answer::Worse | Answer::Higher | Answer::Lower => {
                let word = self.answer_word(answer).to_uppercase();
                let by = self.by(metric, variant, estimate.ratio);
                let ends = ends(estimate.ratio, interval);
                self.pick(
                    format!("{word}: {by} ({ends}, {basis}).{itself}"),
                    format!("{word}: {by}({ends}, {basis}).{itself}"),
                )
            }
            Answer::Same => {
                let (within, seen) = (percent(answer::reach(interval)), self.signed(interval));
                self.pick(
                    format!("SAME within {within} %: {what} ({seen}, {basis}).{itself}"),
                    format!("같음, {within} % 이내: {what}({seen}, {basis}).{itself}"),
                )
            }
            Answer::CannotTell => {
                let (below, seen) = (percent(answer::reach(interval)), self.signed(interval));
                let more = self.enough(estimate, plan.band, is_paired);
                self.pick(
                    format!("CANNOT TELL below {below} %: {what} ({seen}, {basis}). {more}"),
                    format!("{below} % 미만은 판정 불가: {what}({seen}, {basis}). {more}"),
                )
            }
        }
    }

    fn without_interval(self, variant: &str, row: &Row, answer: Answer) -> String {
        let what = self.figure(&row.metric, variant);
        let word = self.answer_word(answer).to_uppercase();
        let nothing = self.pick(
            "in most blocks one of the two has no value, or zero",
            "대부분의 블록에서 한쪽의 값이 없거나 0입니다",
        );
        let open = self.pick("CANNOT TELL", "판정 불가");
        match (&row.comparison, row.doubt) {
            (_, None) => format!("{word}: {what}: {nothing}."),
            (Comparison::NoRatio(why), Some(Undecided::NoRatio)) => {
                format!("{open}: {what}: {why}.")
            }
            (_, Some(doubt)) => format!("{open}: {}. {what}.", self.why(doubt)),
        }
    }

    fn why(self, doubt: Undecided) -> String {
        let reason = self.reason(Verdict::Undecided(doubt)).unwrap_or_default();
        let advice = match doubt {
            Undecided::MachineTooNoisy => self
                .pick("repeat the run on a quieter machine", "더 조용한 장비에서 다시 실행하세요"),
            Undecided::TooFewBlocks => self.pick("use `--blocks 10`", "블록을 늘리세요"),
            Undecided::TooFewRequests => self.pick("use longer rounds", "라운드를 길게 하세요"),
            Undecided::Unfinished => self.pick("continue with `--resume`", "이어서 실행하세요"),
            Undecided::Interference => self.pick(
                "`design = \"rounds\"` measures one variant at a time",
                "하나씩 측정하도록 설정하세요",
            ),
            Undecided::GeneratorLimited => self.pick(
                "give the generator another core, or reduce the rate",
                "부하 생성기에 코어를 더 주거나 요청마다 일을 늘리세요",
            ),
            Undecided::Dropped => {
                self.pick("give the script more `maxVUs`", "스크립트의 가상 사용자를 늘리세요")
            }
            _ => return reason.to_owned(),
        };
        format!("{reason} ({advice})")
    }

    /// `8 pairs, 46 s`.
    fn basis(self, blocks: usize, is_paired: bool, seconds: f64) -> String {
        let (seconds, units) = (metric::digits(seconds), self.units(is_paired));
        let unit = if blocks == 1 { units.trim_end_matches('s') } else { units };
        self.pick(format!("{blocks} {unit}, {seconds} s"), format!("{blocks}{unit}, {seconds}초"))
    }

    fn units(self, is_paired: bool) -> &'static str {
        if is_paired { self.pick("pairs", "쌍") } else { self.pick("blocks", "블록") }
    }

    /// `memory, peak of head`.
    fn figure(self, metric: &Metric, variant: &str) -> String {
        self.pick(
            format!("{} of {variant}", self.metric(metric)),
            format!("{variant}의 {}", self.metric(metric)),
        )
    }

    /// `head needs 1.9 % more CPU per request`.
    fn by(self, metric: &Metric, variant: &str, times: f64) -> String {
        let is_more = times > 1.0;
        let is_near = (0.5..=2.0).contains(&times);
        let by = if is_near {
            format!("{} %", percent(if is_more { times - 1.0 } else { 1.0 - times }))
        } else {
            format!("{} ×", ratio(times))
        };
        let Self::En = self else {
            let way = if is_more { "증가" } else { "감소" };
            let what = self.figure(metric, variant);
            return match is_near {
                true => format!("{what} {by} {way}"),
                false => format!("{what}: 기준의 {}배", ratio(times)),
            };
        };
        let (verb, noun) = match metric {
            Metric::CpuPerGoodRequest => ("needs", "CPU per request".to_owned()),
            Metric::PeakMemory => ("needs", "memory".to_owned()),
            Metric::PeakRss => ("needs", "resident memory".to_owned()),
            Metric::Goodput => ("answers", "requests well each second".to_owned()),
            Metric::GoodShare => ("answers", "of the requests well".to_owned()),
            Metric::Latency(Statistic::Mean) | Metric::Response(Statistic::Mean) => {
                ("takes", "time to answer on average".to_owned())
            }
            Metric::Latency(statistic) | Metric::Response(statistic) => {
                ("takes", format!("time to answer ({})", statistic.name()))
            }
            _ => ("has", self.metric(metric)),
        };
        match (is_near, is_more) {
            (true, true) => format!("{variant} {verb} {by} more {noun}"),
            (true, false) => format!("{variant} {verb} {by} less {noun}"),
            (false, _) => format!("{variant} {verb} {by} the {noun}"),
        }
    }

    /// Estimated number of blocks or pairs for an answer.
    fn enough(self, estimate: &Estimate, band: f64, is_paired: bool) -> String {
        let unit = self.units(is_paired);
        match (self, answer::blocks_needed(estimate, band)) {
            (Self::En, Some(needed)) => format!("About {needed} {unit} would be enough (`--blocks`)."),
            (Self::En, None) => "1,000 blocks would not be enough: use longer rounds, a quieter machine or a wider `band`."
                .to_owned(),
            (Self::Ko, Some(needed)) => format!("약 {needed}{unit}이면 판정할 수 있습니다."),
            (Self::Ko, None) => "1,000블록으로도 판정하기 어렵습니다. 라운드를 길게 하거나, 더 조용한 장비를 쓰거나, \
                                 같다고 볼 범위를 넓히세요."
                .to_owned(),
        }
    }

    /// Ends of an interval as differences from 1: `−0.5 to +0.4 %`.
    fn signed(self, interval: (f64, f64)) -> String {
        let [low, high] = signed_ends(interval);
        self.pick(format!("{low} to {high} %"), format!("{low}~{high} %"))
    }

    /// Sentence about a figure that is worse besides the one in question.
    pub fn also_worse(
        self,
        variant: &str,
        metric: &Metric,
        times: f64,
        interval: (f64, f64),
    ) -> String {
        let (by, ends) = (self.by(metric, variant, times), ends(times, interval));
        self.pick(format!("Also worse: {by} ({ends})."), format!("그 밖에 나쁨: {by}({ends})."))
    }
}

/// A share in percent, with two significant digits.
fn percent(share: f64) -> String {
    let value = share.abs() * 100.0;
    match value {
        value if value < 0.005 => "0".to_owned(),
        value if value < 0.095 => format!("{value:.2}"),
        value if value < 9.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// Ends of an interval that excludes 1, in the form of [`Language::by`].
fn ends(times: f64, (low, high): (f64, f64)) -> String {
    if !(0.5..=2.0).contains(&times) {
        return format!("{}–{} ×", ratio(low), ratio(high));
    }
    let (near, far) = if times > 1.0 { (low - 1.0, high - 1.0) } else { (1.0 - high, 1.0 - low) };
    format!("{}–{} %", percent(near), percent(far))
}

/// Ends of an interval as differences from 1, in percent.
fn signed_ends((low, high): (f64, f64)) -> [String; 2] {
    let end = |value: f64| match percent(value - 1.0).as_str() {
        "0" => "0".to_owned(),
        percent => format!("{}{percent}", if value < 1.0 { '−' } else { '+' }),
    };
    [end(low), end(high)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_have_two_significant_digits() {
        assert_eq!(percent(0.019_4), "1.9");
        assert_eq!(percent(-0.000_42), "0.04");
        assert_eq!(percent(0.252), "25");
        assert_eq!(ends(1.019, (1.015, 1.023)), "1.5–2.3 %");
        assert_eq!(ends(0.9, (0.88, 0.92)), "8.0–12 %");
        assert_eq!(ends(0.097, (0.096, 0.098)), "0.0960–0.0980 ×");
        assert_eq!(Language::En.signed((0.995, 1.004)), "−0.5 to +0.4 %");
        assert_eq!(Language::Ko.signed((1.0, 1.1)), "0~+10 %");
    }

    #[test]
    fn the_sentence_names_the_variant_and_what_it_needs() {
        let by = |metric: &Metric, times| Language::En.by(metric, "head", times);
        assert_eq!(by(&Metric::CpuPerGoodRequest, 1.019), "head needs 1.9 % more CPU per request");
        assert_eq!(
            by(&Metric::CpuPerGoodRequest, 0.097),
            "head needs 0.0970 × the CPU per request"
        );
        let p95 = Metric::Response(Statistic::P95);
        assert_eq!(by(&p95, 0.8), "head takes 20 % less time to answer (p95)");
        assert_eq!(by(&Metric::Goodput, 3.0), "head answers 3.00 × the requests well each second");
    }
}
