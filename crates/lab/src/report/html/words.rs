//! Everything the page says, in each language it can say it in.

use serde::{Deserialize, Serialize};

use crate::{
    experiment::{Bound, Prediction},
    finding::Finding,
    metric::{Metric, Statistic},
    verdict::{Undecided, Verdict},
};

/// A language of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// English.
    #[default]
    En,
    /// Korean.
    Ko,
}

impl Language {
    /// As in the page's `lang`.
    pub fn code(self) -> &'static str {
        self.pick("en", "ko")
    }

    /// One of two texts.
    pub fn pick<'t>(self, en: &'t str, ko: &'t str) -> &'t str {
        match self {
            Self::En => en,
            Self::Ko => ko,
        }
    }

    /// A metric's name in tables.
    pub fn metric(self, metric: &Metric) -> String {
        let Self::Ko = self else { return metric.label().into_owned() };
        match metric {
            Metric::Goodput => "초당 정상 요청",
            Metric::GoodShare => "정상 요청 비율",
            Metric::Latency(Statistic::Mean) => "응답 시간, 평균",
            Metric::Latency(Statistic::P50) => "응답 시간, p50",
            Metric::Latency(Statistic::P90) => "응답 시간, p90",
            Metric::Latency(Statistic::P95) => "응답 시간, p95",
            Metric::Latency(Statistic::P99) => "응답 시간, p99",
            Metric::Latency(Statistic::Max) => "응답 시간, 최대",
            Metric::CpuPerGoodRequest => "정상 요청당 서버 CPU",
            Metric::PeakRss => "서버 메모리, 최대",
            Metric::Load(_) | Metric::Server(_) | Metric::Database(_) => {
                return metric.id().into_owned();
            }
        }
        .to_owned()
    }

    /// The word for an answer.
    pub fn verdict(self, verdict: Verdict) -> &'static str {
        match verdict {
            Verdict::Supported => self.pick("supported", "예측대로"),
            Verdict::Refuted => self.pick("refuted", "예측과 다름"),
            Verdict::Undecided(_) => self.pick("undecided", "판정 불가"),
        }
    }

    /// Why there is no answer.
    pub fn reason(self, verdict: Verdict) -> Option<&'static str> {
        let (Self::Ko, Verdict::Undecided(why)) = (self, verdict) else { return verdict.reason() };
        Some(match why {
            Undecided::TooWide => "신뢰 구간이 예측한 값의 양쪽에 걸쳐 있습니다",
            Undecided::TooFewBlocks => "완료된 블록이 두 개보다 적어 신뢰 구간이 없습니다",
            Undecided::NoRatio => "이 라운드들에는 비율이 없는 지표입니다",
            Undecided::NoValue => "값이 없는 라운드가 있습니다",
            Undecided::BadRequests => {
                "정상 요청이 99 % 미만인 라운드가 있어, 응답 시간에 거절된 요청이 섞여 있습니다"
            }
            Undecided::MachineTooNoisy => "다른 작업이 장비를 너무 많이 사용했습니다",
            Undecided::GeneratorLimited => {
                "서버가 아니라 부하 생성기가 한계였던 라운드가 너무 많습니다"
            }
            Undecided::Unfinished => "모든 블록이 끝나기 전에 실행이 끝났습니다",
        })
    }

    /// The word beside a ratio.
    pub fn finding(self, finding: Finding) -> &'static str {
        match (self, finding) {
            (Self::En, finding) => finding.text(),
            (Self::Ko, Finding::NoDifference) => "차이 없음",
            (Self::Ko, Finding::Higher) => "높음",
            (Self::Ko, Finding::Lower) => "낮음",
            (Self::Ko, Finding::Undecided) => "판정 불가",
        }
    }

    /// What was predicted, as a sentence.
    pub fn claim(self, prediction: &Prediction, reference: &str) -> String {
        let (metric, variant) = (self.metric(&prediction.metric), &prediction.variant);
        let Self::Ko = self else {
            return format!(
                "{metric} of {variant} is {}",
                prediction.claim(reference).replace('`', "")
            );
        };
        let show = |value| prediction.metric.show(value);
        let claim = match prediction.bound {
            Bound::RatioAtMost(ratio) => format!("{reference}의 {ratio}배 이하"),
            Bound::RatioAtLeast(ratio) => format!("{reference}의 {ratio}배 이상"),
            Bound::DifferenceBelow(share) => format!("{reference}와 {} % 이내", share * 100.0),
            Bound::AtMost(value) => format!("{} 이하", show(value)),
            Bound::AtLeast(value) => format!("{} 이상", show(value)),
        };
        format!("{variant}의 {metric}: {claim}")
    }

    /// How many blocks it would take.
    pub fn more(self, blocks: u32) -> String {
        match self {
            Self::En => format!("about {blocks} blocks would decide it with a chance of 80 %"),
            Self::Ko => format!("약 {blocks}블록이면 80 % 확률로 판정할 수 있습니다"),
        }
    }

    /// A ratio's interval.
    pub fn interval(self, low: &str, high: &str) -> String {
        match self {
            Self::En => format!("95 % interval {low} to {high}"),
            Self::Ko => format!("95 % 신뢰 구간 {low} ~ {high}"),
        }
    }
}
