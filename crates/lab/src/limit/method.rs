//! How a search was made, in words: what Markdown and HTML say alike.

use super::{goal::percent, report::LimitReport, steering::Steering};
use crate::report::Language;

/// What was done.
pub fn words(report: &LimitReport) -> String {
    let settings = &report.settings;
    let lang = report.language;
    let steering = match settings.steering {
        Steering::Script => lang.pick("the script read RATE", "스크립트가 RATE를 읽었습니다"),
        Steering::Generator => lang.pick(
            "the script's default function was started by the clock",
            "스크립트의 기본 함수를 시계에 맞추어 시작했습니다",
        ),
    };
    let (seconds, warm_up) = (settings.duration_seconds, settings.warm_up_seconds);
    let (resolution, blocks) = (percent(settings.resolution), settings.blocks);
    let (seed, max_rate) = (report.seed, settings.max_rate);
    match lang {
        Language::En => format!(
            "Iterations started by the clock ({steering}), {seconds} s at each rate after {warm_up} s \
             of warm-up, each time on a fresh process with the same data. The rate rose until the \
             goal was missed twice in a row; then the gap was halved until it was at most \
             {resolution} wide. {blocks} searches for each variant, in turn (seed {seed}). Capacities \
             are geometric means; intervals are 95 %, by Student's t on logarithms, of ratios within \
             blocks. Response times count from when an iteration should have started. Highest rate \
             allowed: {max_rate}/s."
        ),
        Language::Ko => format!(
            "반복을 시계에 맞추어 시작했습니다({steering}). 속도마다 {warm_up}초 예열한 뒤 {seconds}초 \
             동안, 매번 새 프로세스와 같은 데이터로 실행했습니다. 목표에 두 번 연속 이르지 못할 때까지 \
             속도를 높인 다음, 간격이 {resolution} 이하가 될 때까지 반으로 나누었습니다. 변형마다 \
             {blocks}번씩 번갈아 탐색했습니다(시드 {seed}). 한계는 기하 평균이고, 구간은 로그에 대한 t로 \
             구한 95 % 신뢰구간이며, 비율은 블록 안에서 구합니다. 응답 시간은 반복이 시작되어야 했던 \
             때부터 셉니다. 허용한 가장 높은 속도는 초당 {max_rate}회입니다."
        ),
    }
}

/// Where, when and with what.
pub fn circumstances(report: &LimitReport) -> Vec<String> {
    let lang = report.language;
    let mut lines = vec![lang.time(&report.started, report.finished.as_deref())];
    lines.extend(report.resumed.iter().map(|moment| lang.resumed(moment)));
    lines.push(report.machine.line());
    lines.extend(report.versions.iter().map(|(name, version)| format!("{name} {version}")));
    lines.push(format!("{}: {}", lang.pick("script", "스크립트"), report.script));
    lines
}
