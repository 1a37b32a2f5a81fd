//! Description of the method, for Markdown and HTML.

use super::goal::percent;
use super::plan::LimitSettings;
use super::report::LimitReport;
use super::search::CONFIRMATIONS;
use super::steering::Steering;
use crate::report::Language;

pub(crate) fn words(report: &LimitReport) -> String {
    let settings = &report.settings;
    let lang = report.language;
    let steering = match settings.steering {
        Steering::Script => lang.pick("the script followed RATE", "스크립트가 RATE를 따랐습니다"),
        Steering::Generator => lang.pick(
            "the script's default function was started by the clock",
            "스크립트의 기본 함수를 시계에 맞추어 시작했습니다",
        ),
    };
    let LimitSettings {
        duration_seconds, short_seconds, warm_up_seconds, blocks, max_rate, ..
    } = settings;
    let (resolution, seed) = (percent(settings.resolution), report.seed);
    match lang {
        Language::En => format!(
            "Iterations started by the clock ({steering}), after {warm_up_seconds} s of warm-up, each time on a fresh \
             process with the same data. Short tries ({short_seconds} s) searched for a rate near the limit. Long tries \
             ({duration_seconds} s) decided: a rate is confirmed when {CONFIRMATIONS} of them met the goal and refuted \
             when one missed it, until the two were at most {resolution} apart. A queue that grows is a miss. {blocks} \
             searches for each variant, in turn (seed {seed}). A capacity is the median of the highest confirmed rates; \
             intervals are 95 %, by Student's t on logarithms, of ratios within blocks. Response times count from when an \
             iteration should have started. Highest rate allowed: {max_rate}/s."
        ),
        Language::Ko => format!(
            "반복을 시계에 맞추어 시작했습니다({steering}). {warm_up_seconds}초 예열한 뒤, 매번 새 프로세스와 같은 \
             데이터로 실행했습니다. 짧은 시도({short_seconds}초)로 한계에 가까운 속도를 찾고, 긴 \
             시도({duration_seconds}초)로 판정했습니다. 긴 시도 {CONFIRMATIONS}번이 모두 목표에 이르면 그 속도는 확인된 \
             것이고, 한 번이라도 이르지 못하면 기각됩니다. 둘의 간격이 {resolution} 이하가 될 때까지 계속했습니다. 대기열이 \
             늘어나면 목표에 이르지 못한 것입니다. 변형마다 {blocks}번씩 번갈아 탐색했습니다(시드 {seed}). 한계는 확인된 \
             가장 높은 속도의 중앙값이고, 구간은 로그에 대한 t로 구한 95 % 신뢰구간이며, 비율은 블록 안에서 구합니다. 응답 \
             시간은 반복이 시작되어야 했던 때부터 셉니다. 허용한 가장 높은 속도는 초당 {max_rate}회입니다."
        ),
    }
}

/// Place, time and versions.
pub(crate) fn circumstances(report: &LimitReport) -> Vec<String> {
    let lang = report.language;
    let mut lines = report.origin.lines(lang);
    lines.push(format!("{}: {}", lang.pick("script", "스크립트"), report.script));
    lines
}
