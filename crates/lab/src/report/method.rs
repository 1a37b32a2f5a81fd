//! Method and circumstances of a run in words.

use std::collections::{BTreeMap, BTreeSet};

use super::{Language, Report, TargetPart};
use crate::judge::metric::digits;
use crate::time;

pub(crate) fn words(lang: Language) -> &'static str {
    lang.pick(
        "Each block ran every variant once, in random order, on a fresh process with the same data. \
         The round is the unit. Values are geometric means over rounds (arithmetic ones where a \
         round has zero); ratios are taken within a block, averaged as logarithms, with a 95 % \
         interval by Student's paired t. A figure is better or worse when its interval leaves out 1, the same when the interval includes 1 and \
         lies inside the band. Good requests are those that did not fail and none of \
         whose checks failed; response times are over all requests. Server CPU and memory are of \
         its whole process tree.",
        "블록마다 모든 변형을 무작위 순서로 한 번씩, 같은 데이터와 새 프로세스로 실행했습니다. 통계의 \
         단위는 라운드입니다. 값은 라운드의 기하 평균이고, 0이 있으면 산술 평균입니다. 비율은 블록 \
         안에서 구해 로그로 평균하고, 대응표본 t로 95 % 신뢰구간을 냅니다. 구간에 1이 \
         들어 있지 않으면 ‘좋음’이나 ‘나쁨’, 1이 들어 있고 구간 전체가 범위 안에 있으면 ‘같음’입니다. 정상 요청은 실패하지 않았고 검사도 모두 통과한 요청이며, 응답 시간은 모든 \
         요청의 값입니다. 서버 CPU와 메모리는 프로세스 트리 전체의 값입니다.",
    )
}

pub(crate) fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let lang = report.language;
    let settings = &report.settings;
    let blocks = format!("{} / {}", report.complete_blocks, settings.blocks);
    let measured = settings
        .duration
        .map_or_else(|| lang.pick("as the script says", "스크립트에 따름").to_owned(), time::exact);
    let band = digits(report.experiment.band * 100.0);
    let mut facts = vec![
        (lang.pick("complete blocks", "완료된 블록"), blocks),
        (lang.pick("seed of the order", "순서의 시드"), report.seed.to_string()),
        (lang.pick("warm-up", "예열"), time::exact(settings.warm_up)),
        (lang.pick("measured", "측정 시간"), measured),
        (lang.pick("band of no difference", "차이 없음의 범위"), format!("± {band} %")),
    ];
    let cpus = pinning(report).into_iter();
    facts.extend(cpus.map(|way| (lang.pick("CPUs", "CPU"), way)));
    facts
}

/// A sentence for each assignment of CPUs: the machine may change during a run, and a `url` cannot be pinned.
fn pinning(report: &Report) -> Vec<String> {
    let lang = report.language;
    let mut ways: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for round in &report.rounds {
        let Some(measured) = round.measured() else { continue };
        let way = match &measured.cpus {
            None => lang
                .pick(
                    "server and generator shared all CPUs",
                    "서버와 부하 생성기가 모든 CPU를 함께 사용했습니다",
                )
                .to_owned(),
            Some(pinned) => lang.cpus(pinned.server.as_deref(), &pinned.generator),
        };
        ways.entry(way).or_default().insert(&round.variant);
    }
    let only = ways.len() == 1;
    let sentence = |(way, variants): (String, BTreeSet<&str>)| {
        let variants: Vec<&str> = variants.into_iter().collect();
        if only { way } else { format!("{way} ({})", variants.join(", ")) }
    };
    ways.into_iter().map(sentence).collect()
}

/// Time, machine, versions and settings.
pub(crate) fn circumstances(report: &Report) -> Vec<String> {
    let lang = report.language;
    let mut lines = report.origin.lines(lang);
    let experiment = &report.experiment;
    lines.push(format!("{}: {}", lang.pick("experiment", "실험"), experiment.file));
    lines.push(format!("{}: {}", lang.pick("script", "스크립트"), experiment.script));
    let words = |table: &toml::Table| table.to_string().trim().replace('\n', ", ");
    for variant in &experiment.variants {
        let (kind, how) = match &variant.target {
            TargetPart::Serve(settings) if settings.is_empty() => {
                ("serve", lang.pick("defaults", "기본값").to_owned())
            }
            TargetPart::Serve(settings) => ("serve", words(settings)),
            TargetPart::Command(argv) => ("command", argv.join(" ")),
            TargetPart::Container(source) => source.named(),
            TargetPart::Url(url) => ("url", url.clone()),
        };
        let stack = variant.stack.as_ref();
        let stack = stack.map_or_else(String::new, |stack| format!("stack {}; ", words(stack)));
        let budget = variant.cpus.as_ref().map_or_else(String::new, |cpus| format!(", {cpus}"));
        lines.push(format!("{}: {stack}{kind} {how}{budget}", variant.name));
    }
    lines
}
