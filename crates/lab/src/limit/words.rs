//! Texts of the reports of a search, in each language.

use super::blocks::SearchEnd;
use super::goal::{Bottleneck, Breach, DIED, Goal, Reason, number, percent};
use super::summary::{Capacity, Obstacle, VariantLimit, Versus};
use crate::report::Language;

impl Language {
    pub(super) fn goal(self, goal: &Goal) -> String {
        let Self::Ko = self else { return goal.to_string() };
        let times = [("p95", goal.p95_ms), ("p99", goal.p99_ms)].into_iter();
        let times = times.filter_map(|(name, limit)| Some((name, limit?)));
        let times = times.map(|(name, limit)| format!("{name} ≤ {} ms", number(limit)));
        let shares = [("오류", goal.errors), ("시작 못 함", goal.max_dropped)];
        let shares = shares.map(|(name, share)| format!("{name} ≤ {}", percent(share)));
        times.chain(shares).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn breach(self, breach: &Breach) -> String {
        let Self::Ko = self else { return breach.to_string() };
        match breach {
            Breach::P95 { ms: None } => "p95: 요청이 없습니다".to_owned(),
            Breach::P99 { ms: None } => "p99: 요청이 없습니다".to_owned(),
            Breach::P95 { .. } | Breach::P99 { .. } => breach.to_string(),
            Breach::Errors { share } => format!("오류 {}", percent(*share)),
            Breach::QueueGrew { growth } => {
                format!("대기열 증가: 응답 시간이 초마다 {} ms씩", number(growth * 1000.0))
            }
            Breach::Dropped { share } => format!("시작 못 함 {}", percent(*share)),
            Breach::Died { message } => format!("서버가 종료되었습니다 («{message}»)"),
            Breach::Invariant { name } => format!("불변 조건 위반: {name}"),
        }
    }

    pub(super) fn gave_way(self, word: &str) -> &str {
        let Self::Ko = self else { return word };
        match word {
            "errors" => "오류",
            "a growing queue" => "대기열 증가",
            "dropped iterations" => "시작 못 함",
            DIED => "서버 종료",
            "an invariant" => "불변 조건",
            other => other,
        }
    }

    pub(super) fn missed(self, reason: &Reason) -> String {
        let Self::Ko = self else { return reason.to_string() };
        let breaches: Vec<String> = reason.breaches.iter().map(|one| self.breach(one)).collect();
        let bottleneck = match reason.bottleneck {
            Bottleneck::Server => "",
            Bottleneck::Generator => " (부하 생성기가 한계였습니다)",
            Bottleneck::VirtualUsers => " (가상 사용자가 모자랐습니다)",
        };
        breaches.join(", ") + bottleneck
    }

    pub(super) fn obstacle(self, obstacle: Obstacle) -> &'static str {
        let (en, ko) = match obstacle {
            Obstacle::Generator => {
                ("the load generator gave way first", "부하 생성기가 먼저 한계에 이르렀습니다")
            }
            Obstacle::VirtualUsers => (
                "virtual users ran out first; give more with --vus or maxVUs",
                "가상 사용자가 먼저 모자랐습니다. --vus 또는 maxVUs로 늘릴 수 있습니다",
            ),
            Obstacle::MaxRate => (
                "it held the highest rate allowed; --max-rate raises that",
                "허용한 가장 높은 속도를 견뎠습니다. --max-rate로 높일 수 있습니다",
            ),
        };
        self.pick(en, ko)
    }

    /// Reason of an early end, if any.
    pub(super) fn search_ended(self, ended: &SearchEnd) -> Option<String> {
        Some(match (self, ended) {
            (_, SearchEnd::Complete) => return None,
            (_, SearchEnd::Interrupted) => {
                self.pick("the run was interrupted", "실행이 중단되었습니다").to_owned()
            }
            (Self::En, SearchEnd::Broken { block, why, .. }) => {
                format!("block {block} broke again and again, so the run was given up: {why}")
            }
            (Self::Ko, SearchEnd::Broken { block, why, .. }) => {
                format!("블록 {block}: 계속 깨져서 실행을 그만두었습니다: {why}")
            }
        })
    }

    pub(super) fn capacity(self, capacity: &Capacity) -> String {
        match capacity {
            Capacity::Exactly { rate, interval: Some((low, high)) } => {
                format!("{rate} [{} – {}]", number(*low), number(*high))
            }
            Capacity::Exactly { rate, interval: None } => rate.to_string(),
            Capacity::AtLeast { rate, .. } => {
                self.pick(format!("{rate} or more"), format!("{rate} 이상"))
            }
            Capacity::Nothing { .. } => self.pick("none", "없음").to_owned(),
            Capacity::Unknown => "–".to_owned(),
        }
    }

    pub(super) fn limit_of(self, variant: &VariantLimit) -> String {
        let VariantLimit { name, searches, .. } = variant;
        let searches = searches.len();
        let takes = match &variant.capacity {
            Capacity::Exactly { rate, interval } => {
                let ends = interval.map(|(low, high)| self.interval(&number(low), &number(high)));
                let ends = ends.map_or_else(String::new, |ends| format!(" ({ends})"));
                let first = variant.gave_way.first().map_or_else(String::new, |(word, count)| {
                    self.gave_way_first(word, *count, searches)
                });
                self.pick(
                    format!("`{name}` takes {rate} iterations/s{ends}{first}."),
                    format!("`{name}`: 초당 반복 {rate}회{ends}{first}."),
                )
            }
            Capacity::AtLeast { rate, because } => {
                let why = self.obstacle(*because);
                match (self, rate) {
                    (Self::En, 0) => format!("Nothing is known of `{name}`: {why}."),
                    (Self::En, rate) => {
                        format!("`{name}` takes {rate} iterations/s or more: {why}.")
                    }
                    (Self::Ko, 0) => format!("`{name}`: 알 수 있는 것이 없습니다. {why}."),
                    (Self::Ko, rate) => format!("`{name}`: 초당 반복 {rate}회 이상. {why}."),
                }
            }
            Capacity::Nothing { searches: failed } => self.pick(
                format!(
                    "`{name}` takes nothing at this promise: it did not reach the goal even at 1 \
                     iteration/s in {failed} of {searches} searches{}.",
                    self.nothing_for(variant)
                ),
                format!(
                    "`{name}`: 이 목표로는 아무것도 견디지 못합니다. 탐색 {searches}번 중 {failed}번은 초당 \
                     반복 1회에서도 목표에 이르지 못했습니다{}.",
                    self.nothing_for(variant)
                ),
            ),
            Capacity::Unknown => self.pick(
                format!("No search of `{name}` was completed."),
                format!("`{name}`: 끝난 탐색이 없습니다."),
            ),
        };
        takes + &self.versus(&variant.versus)
    }

    /// Reason for missing the goal at the lowest rate, from the first such search.
    fn nothing_for(self, variant: &VariantLimit) -> String {
        let mut failed = variant.searches.iter().filter(|search| search.found.confirmed.is_none());
        let why = failed.find_map(|search| search.found.why.as_ref());
        why.map_or_else(String::new, |why| format!(" ({})", self.missed(why)))
    }

    fn gave_way_first(self, word: &str, count: usize, searches: usize) -> String {
        // `died` already implies that it gave way.
        if (self, word) == (Self::En, DIED) {
            return format!("; {DIED} first in {count} of {searches} searches");
        }
        let word = self.gave_way(word);
        self.pick(
            format!("; {word} gave way first in {count} of {searches} searches"),
            format!("; 탐색 {searches}번 중 {count}번에서 먼저 무너진 것: {word}"),
        )
    }

    /// The comparison with the reference, as a further sentence.
    fn versus(self, versus: &Versus) -> String {
        match versus {
            Versus::Reference => String::new(),
            Versus::NoRatio(why) => {
                self.pick(format!(" It has no ratio: {why}."), format!(" 비율 없음: {why}."))
            }
            Versus::Ratio(estimate) => {
                let shown = self.estimate(estimate);
                let is_doubtful = estimate.interval.is_some() && estimate.includes_no_difference();
                match (self, is_doubtful) {
                    (Self::En, false) => format!(" That is {shown} of what the reference takes."),
                    (Self::En, true) => format!(
                        " That is {shown} of what the reference takes, which may be no difference."
                    ),
                    (Self::Ko, false) => format!(" 기준의 {shown}입니다."),
                    (Self::Ko, true) => {
                        format!(" 기준의 {shown}이며, 차이가 없을 수도 있습니다.")
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gave_way_is_said_in_a_sentence() {
        let sentence = |lang: Language, word| lang.gave_way_first(word, 2, 3);
        assert_eq!(sentence(Language::En, "p95"), "; p95 gave way first in 2 of 3 searches");
        assert_eq!(sentence(Language::En, DIED), "; the server died first in 2 of 3 searches");
        assert_eq!(sentence(Language::Ko, DIED), "; 탐색 3번 중 2번에서 먼저 무너진 것: 서버 종료");
    }
}
