//! Texts of reports in all languages. Names of metrics and variants, and output of programs, are not translated.
//!
//! In Korean no particle follows a name, because it would depend on the name's last sound.

mod doubts;
mod headline;

use madang_stack::CpuBudget;
use serde::{Deserialize, Serialize};

use crate::file::experiment::{Bound, Prediction};
use crate::journal::record::{CheckedLimit, LimitKind};
use crate::judge::metric::{Absent, Metric, Statistic};
use crate::judge::stats::{self, Estimate};
use crate::judge::verdict::{Undecided, Verdict};
use crate::report::ratio;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    #[default]
    En,
    Ko,
}

impl Language {
    /// `lang` attribute of a page.
    pub fn code(self) -> &'static str {
        self.pick("en", "ko")
    }

    pub fn pick<T>(self, en: T, ko: T) -> T {
        match self {
            Self::En => en,
            Self::Ko => ko,
        }
    }

    pub fn metric(self, metric: &Metric) -> String {
        let Self::Ko = self else { return metric.label() };
        match metric {
            Metric::Goodput => "초당 정상 요청",
            Metric::GoodShare => "정상 요청 비율",
            Metric::Response(Statistic::P50) => "응답 시간, p50",
            Metric::Response(Statistic::P95) => "응답 시간, p95",
            Metric::Response(Statistic::P99) => "응답 시간, p99",
            Metric::CpuPerGoodRequest => "정상 요청당 CPU",
            Metric::PeakMemory => "메모리, 최대",
            Metric::PeakRss => "상주 메모리 합계, 최대",
            _ => return metric.id(),
        }
        .to_owned()
    }

    pub fn verdict(self, verdict: Verdict) -> &'static str {
        match verdict {
            Verdict::Supported => self.pick("supported", "예측대로"),
            Verdict::Refuted => self.pick("refuted", "예측과 다름"),
            Verdict::Undecided(_) => self.pick("undecided", "판정 불가"),
        }
    }

    pub fn reason(self, verdict: Verdict) -> Option<&'static str> {
        let (Self::Ko, Verdict::Undecided(why)) = (self, verdict) else { return verdict.reason() };
        Some(match why {
            Undecided::TooWide => "신뢰구간이 예측한 값의 양쪽에 걸쳐 있습니다",
            Undecided::TooFewBlocks => {
                "완료된 블록이 두 개(값이 모두 0이면 여섯 개)보다 적어 신뢰구간이 없습니다"
            }
            Undecided::NoRatio => "이 라운드들에는 비율이 없는 지표입니다",
            Undecided::NoValue => "값이 없는 라운드가 있습니다",
            Undecided::NothingGood => {
                "정상 요청이 하나도 없는 라운드가 있습니다. 무언가 고장 났습니다"
            }
            Undecided::BadRequests => {
                "정상 요청이 99 % 미만인 라운드가 있어, 응답 시간에 거절된 요청이 섞여 있습니다"
            }
            Undecided::Exceptions => {
                "요청이 모두 정상인데도 반복의 1 %를 넘게 스크립트 예외로 끝난 라운드가 있어, 부하가 스크립트와 \
                 달랐습니다"
            }
            Undecided::TooFewRequests => {
                "백분위수보다 큰 값이 10개보다 적은 라운드가 있습니다(p99에는 요청 1,000개가 필요합니다). 최댓값은 \
                 반복할 때마다 달라집니다"
            }
            Undecided::MachineTooNoisy => "다른 작업이 장비를 너무 많이 사용했습니다",
            Undecided::GeneratorLimited => {
                "서버가 아니라 부하 생성기가 한계였던 라운드가 있어, 서버는 측정값보다 빠를 수 있습니다"
            }
            Undecided::Dropped => {
                "반복의 1 %를 넘게 시작하지 못한 라운드가 있어, 가장 느린 응답이 빠져 있습니다"
            }
            Undecided::Apart => "한 쌍의 두 부하가 같은 시간에 측정되지 않았습니다",
            Undecided::Interference => {
                "하나씩 부하를 줄 때의 비율이 동시에 줄 때와 예측의 여유보다 더 다릅니다"
            }
            Undecided::Unfinished => "모든 블록이 끝나기 전에 실행이 끝났습니다",
        })
    }

    /// The claim of a prediction, in English to follow "is".
    fn bound(self, prediction: &Prediction, reference: &str) -> String {
        let Self::Ko = self else { return prediction.claim(reference) };
        let show = |value| prediction.metric.show(value);
        match prediction.bound {
            Bound::RatioAtMost(ratio) => format!("`{reference}`의 {ratio}배 이하"),
            Bound::RatioAtLeast(ratio) => format!("`{reference}`의 {ratio}배 이상"),
            Bound::DifferenceBelow(share) => {
                format!("`{reference}` 대비 차이 {} % 이내", share * 100.0)
            }
            Bound::AtMost(value) => format!("{} 이하", show(value)),
            Bound::AtLeast(value) => format!("{} 이상", show(value)),
        }
    }

    /// Sentence about a prediction. `measured` is from [`Self::measured`].
    pub fn answer(
        self,
        prediction: &Prediction,
        reference: &str,
        verdict: Verdict,
        measured: &str,
        blocks: u32,
    ) -> String {
        let (metric, variant) = (self.metric(&prediction.metric), &prediction.variant);
        let bound = self.bound(prediction, reference);
        let (word, blocks) = (self.verdict(verdict), self.blocks(blocks));
        let why = self.reason(verdict).map_or_else(String::new, |why| {
            self.pick(format!(" Why: {why}."), format!(" 이유: {why}."))
        });
        self.pick(
            format!(
                "Prediction: {word}: {metric} of `{variant}` is {bound}; {measured} in {blocks}.{why}"
            ),
            format!("예측: {word}: `{variant}`의 {metric} {bound}; {measured}, {blocks}.{why}"),
        )
    }

    pub fn measured(self, value: &str) -> String {
        self.pick(format!("measured {value}"), format!("측정값 {value}"))
    }

    pub fn no_ratio(self, why: &str) -> String {
        self.pick(format!("no ratio: {why}"), format!("비율 없음: {why}"))
    }

    /// Ratios that are zero in some blocks; `others` are the extremes of the rest.
    pub fn zeros(
        self,
        zero: usize,
        all: usize,
        others: Option<(String, String)>,
        why: &str,
    ) -> String {
        match (self, others) {
            (Self::En, None) => format!("measured ×0 in {zero} of {all} blocks ({why})"),
            (Self::En, Some((low, high))) => format!(
                "measured ×0 in {zero} of {all} blocks ({why}) and ×{low} to ×{high} in the others"
            ),
            (Self::Ko, None) => format!("측정값 {all}블록 중 {zero}블록에서 ×0 ({why})"),
            (Self::Ko, Some((low, high))) => format!(
                "측정값 {all}블록 중 {zero}블록에서 ×0 ({why}), 나머지에서 ×{low} ~ ×{high}"
            ),
        }
    }

    /// Number of rows that the table omits.
    pub fn left_out(self, rows: usize) -> String {
        match (self, rows) {
            (Self::En, 1) => "(left out: 1 metric that is 0 everywhere)".to_owned(),
            (Self::En, rows) => format!("(left out: {rows} metrics that are 0 everywhere)"),
            (Self::Ko, rows) => format!("(모두 0인 지표 {rows}개는 생략했습니다)"),
        }
    }

    pub fn nothing(self) -> &'static str {
        self.pick("nothing was measured", "측정된 값이 없습니다")
    }

    pub fn blocks(self, blocks: u32) -> String {
        match (self, blocks) {
            (Self::En, 1) => "1 block".to_owned(),
            (Self::En, blocks) => format!("{blocks} blocks"),
            (Self::Ko, blocks) => format!("{blocks}블록"),
        }
    }

    /// Blocks that an interval too wide would need; a sentence to follow another.
    pub fn more_blocks(self, blocks: Option<u32>) -> String {
        let (chance, most) = (stats::POWER * 100.0, stats::MOST_BLOCKS);
        match (self, blocks) {
            (Self::En, Some(blocks)) => format!(
                " About {blocks} blocks would decide it with a chance of {chance} %, if mean and \
                 spread stay as they are."
            ),
            (Self::En, None) => format!(" Even {most} blocks would hardly decide it."),
            (Self::Ko, Some(blocks)) => format!(
                " 평균과 편차가 지금과 같다면 약 {blocks}블록이면 {chance} % 확률로 판정할 수 \
                 있습니다."
            ),
            (Self::Ko, None) => format!(" {most}블록으로도 판정하기 어렵습니다."),
        }
    }

    /// `×0.52 (95 % interval 0.48 to 0.57)`.
    pub fn estimate(self, estimate: &Estimate) -> String {
        let ends = estimate.interval.map(|(low, high)| (ratio(low), ratio(high)));
        self.value(&format!("×{}", ratio(estimate.ratio)), ends)
    }

    pub fn value(self, value: &str, ends: Option<(String, String)>) -> String {
        match (self, ends) {
            (_, Some((low, high))) => format!("{value} ({})", self.interval(&low, &high)),
            (Self::En, None) => format!("{value} (too few blocks for an interval)"),
            (Self::Ko, None) => format!("{value} (블록이 적어 신뢰구간이 없습니다)"),
        }
    }

    /// Reason for a missing ratio.
    pub fn absent(self, why: Absent, variant: &str, rounds: u32, all: usize) -> String {
        let Self::Ko = self else {
            return format!("{why} ({variant}, {rounds} of {all} rounds)");
        };
        let why = match why {
            Absent::NoGoodRequest => "정상 요청이 하나도 없습니다",
            Absent::NotObserved => "lab이 시작하지 않은 서버라서 관찰할 수 없습니다",
            Absent::CpuUnknown => {
                "끝난 자식 프로세스를 아무도 기다리지 않아 서버의 CPU 시간을 알 수 없습니다"
            }
            Absent::NotReported => "부하 보고서에 없습니다",
            Absent::NoSuchStatistic => "이 종류의 지표에는 없는 통계입니다",
            Absent::NoDatabase => "이 변형 옆에는 그런 서버가 없습니다",
            Absent::NoPart => "이 변형에는 그런 부분이 없습니다",
            Absent::NotOnPage => "서버의 지표 페이지에 없습니다",
            Absent::TooSmall => "짧은 시간에 측정하기에는 너무 작습니다",
            Absent::NotPositive => "값이 0보다 크지 않습니다",
        };
        format!("{why} ({variant}, {all}라운드 중 {rounds}라운드)")
    }

    /// `at most 30 = max(0, 30 - before)`.
    pub fn limit(self, limit: &CheckedLimit) -> String {
        let number = limit.limit.to_string();
        let same = number == limit.formula;
        let formula = if same { String::new() } else { format!(" = {}", limit.formula) };
        let must = match limit.bound {
            LimitKind::Equals => self.pick("equal to", "정확히"),
            LimitKind::AtMost => self.pick("at most", "최대"),
            LimitKind::AtLeast => self.pick("at least", "최소"),
        };
        format!("{must} {number}{formula}")
    }

    pub fn budget(self, budget: &CpuBudget) -> String {
        let base = budget.base();
        match (self, budget.burst()) {
            (Self::En, _) => budget.to_string(),
            (Self::Ko, None) => format!("코어 {base}개"),
            (Self::Ko, Some((cores, credit))) => {
                format!("코어 {base}개, 크레딧 {credit}초 동안 {cores}개까지")
            }
        }
    }

    pub fn interval(self, low: &str, high: &str) -> String {
        self.pick(format!("95 % interval {low} to {high}"), format!("95 % 신뢰구간 {low} ~ {high}"))
    }
}
