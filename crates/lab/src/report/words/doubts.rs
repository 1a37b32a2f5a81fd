//! Texts of warnings.

use super::Language;
use crate::journal::record::{Failure, FailureKind, Outcome, RoundRecord, Warning};
use crate::judge::metric::Metric;
use crate::report::RunEnd;

impl Language {
    pub fn warning(self, warning: Warning) -> &'static str {
        let Self::Ko = self else { return warning.text() };
        match warning {
            Warning::GeneratorLimited => "서버가 아니라 부하 생성기가 한계였을 수 있습니다",
            Warning::Steal => "하이퍼바이저가 이 장비 CPU 시간의 5 %를 넘게 가져갔습니다",
            Warning::ForeignCpu => "다른 프로세스가 코어 하나의 20 %를 넘게 사용했습니다",
            Warning::BadRequests => {
                "정상 요청이 99 % 미만이며, 응답 시간에 나머지 요청도 섞여 있습니다"
            }
            Warning::Dropped => {
                "남는 가상 사용자가 없어 반복의 1 %를 넘게 시작하지 못했습니다. 그 반복이 기다렸을 시간은 응답 시간에 \
                 들어 있지 않습니다(`maxVUs`를 늘리면 측정되고, 부하를 줄이면 생기지 않습니다)"
            }
            Warning::UncleanStop => {
                "종료를 요청했을 때 서버가 비정상 종료했거나, 실패했거나, 강제로 종료되었습니다"
            }
            Warning::SharedCore => {
                "서버와 부하 생성기가 같은 코어의 하드웨어 스레드에서 실행되어 서로를 느리게 했습니다"
            }
            Warning::SharedCpus => {
                "서버와 부하 생성기가 모든 CPU를 함께 써서 서로의 시간을 빼앗았습니다"
            }
            Warning::NoBudget => "CPU 예산이 적용되지 않아 서버가 모든 CPU를 사용했습니다",
            Warning::LeftFiles => "라운드의 파일을 지우지 못했습니다",
            Warning::Exceptions => {
                "요청이 모두 정상인데도 반복의 1 %를 넘게 스크립트 예외로 끝나, 그 뒤에 보냈을 요청을 보내지 \
                 않았습니다"
            }
            Warning::CpuUnknown => {
                "서버의 프로세스가 끝났지만 아무도 기다리지 않았습니다(부모가 SIGCHLD를 무시하거나, 바깥의 \
                 프로세스가 거두었습니다). 커널은 이런 프로세스의 사용량을 남기지 않으므로 서버의 CPU 시간을 \
                 알 수 없습니다"
            }
            Warning::BusyAfterLoad => {
                "부하가 끝난 뒤에도 서버가 일을 계속했습니다. 미뤄 둔 일은 요청당 CPU에 들어 있지 않습니다(그 일이 \
                 끝나기를 기다리는 `drain` 훅이 있으면 함께 셉니다)"
            }
            Warning::Apart => {
                "한 쌍의 두 부하가 같은 시간에 측정되지 않아 비용에 대해서는 알 수 없습니다"
            }
            Warning::FailedChecks => "어떤 체크가 1 %를 넘게 실패했습니다",
            Warning::Thresholds => "스크립트의 임계값을 넘었습니다",
            Warning::MarkedAsFailed => "스크립트가 실행을 실패로 표시했습니다(`exec.test.fail()`)",
        }
    }

    pub fn refused(self, round: &RoundRecord) -> String {
        let why: Vec<String> =
            round.refused.iter().map(|reason| self.refusal(round, *reason)).collect();
        let (block, variant, why) = (round.block, &round.variant, why.join("; "));
        self.pick(
            format!("block {block}: a round of `{variant}` was refused and repeated: {why}"),
            format!("블록 {block}: `{variant}` 라운드를 버리고 다시 실행했습니다: {why}"),
        )
    }

    /// Reason for a refusal, with the generator's own message or the names of other processes.
    fn refusal(self, round: &RoundRecord, reason: Warning) -> String {
        let noticed = match &round.outcome {
            Outcome::Measured(measured) if reason == Warning::GeneratorLimited => {
                measured.load.generator.reason.clone()
            }
            Outcome::Measured(measured) if reason == Warning::ForeignCpu => {
                let others = measured.machine.iter().flat_map(|machine| &machine.others);
                let others = others.map(|one| format!("`{}` {:.2}", one.name, one.cores));
                Some(others.collect::<Vec<_>>().join(", ")).filter(|others| !others.is_empty())
            }
            _ => None,
        };
        let noticed = noticed.map_or_else(String::new, |noticed| {
            self.pick(format!(" ({noticed})"), format!(" («{noticed}»)"))
        });
        format!("{}{noticed}", self.warning(reason))
    }

    pub fn broke(self, round: &RoundRecord, failure: &Failure) -> String {
        let RoundRecord { block, attempt, variant, .. } = round;
        let message = self.failure(failure);
        self.pick(
            format!("block {block}, attempt {attempt}: the round of `{variant}` broke: {message}"),
            format!("블록 {block}, 시도 {attempt}: `{variant}` 라운드가 깨졌습니다: {message}"),
        )
    }

    /// Output of programs is not translated.
    pub fn failure(self, failure: &Failure) -> String {
        let Self::Ko = self else { return failure.message.clone() };
        let kind = match failure.kind {
            FailureKind::Start => "서버가 준비되지 않았습니다",
            FailureKind::ServerDied => "부하 중에 서버가 종료되었습니다",
            FailureKind::Load => "부하 생성기가 실패했습니다",
            FailureKind::StartLimit => "서버가 제한 시간 안에 준비되지 않았습니다",
            FailureKind::TimeLimit => "부하 생성기가 제한 시간을 넘겼습니다",
            FailureKind::Output => "출력이 너무 많습니다",
            FailureKind::Value => "불변 조건에 필요한 값을 읽지 못했습니다",
            FailureKind::Database => "관찰하는 데이터베이스에 물어볼 수 없었습니다",
            FailureKind::Hook => "훅이 실패했습니다",
            FailureKind::Machine => "이 장비의 파일이나 /proc을 읽지 못했습니다",
            FailureKind::Interrupted => "실행이 중단되었습니다",
        };
        format!("{kind} («{}»)", failure.message)
    }

    /// `None` for a complete run.
    pub fn ended(self, ended: RunEnd) -> Option<String> {
        Some(match (self, ended) {
            (_, RunEnd::Complete) => return None,
            (Self::En, RunEnd::Interrupted) => "the run was interrupted".to_owned(),
            (Self::Ko, RunEnd::Interrupted) => "실행이 중단되었습니다".to_owned(),
            (Self::En, RunEnd::Broken { block, attempts }) => {
                format!("block {block} broke {attempts} times, so the run was given up")
            }
            (Self::Ko, RunEnd::Broken { block, attempts }) => {
                format!("블록 {block}: {attempts}번 깨져서 실행을 그만두었습니다")
            }
        })
    }

    pub fn time(self, started: &str, finished: Option<&str>) -> String {
        let killed = self.pick("its being killed", "강제 종료");
        format!("{started} – {}", finished.unwrap_or(killed))
    }

    pub fn resumed(self, moment: &str) -> String {
        self.pick(
            format!("interrupted, and resumed {moment}"),
            format!("중단된 뒤 이어서 실행: {moment}"),
        )
    }

    /// Servers may have changed before a run was resumed.
    pub fn unknown_builds(self, names: &str) -> String {
        self.pick(
            format!(
                "the run was resumed, and whether the server of {names} was still the same cannot \
                 be known: it was not started by the lab"
            ),
            format!(
                "중단된 실행을 이어서 했습니다. {names}의 서버는 lab이 시작하지 않았으므로 그동안 \
                 바뀌지 않았는지 알 수 없습니다"
            ),
        )
    }

    pub fn noise(self, disturbed: usize, all: usize) -> String {
        let most = match disturbed * 2 > all {
            false => "",
            true => self.pick(
                ", more than half: repeat it on a quieter machine",
                " 절반이 넘으므로 더 조용한 장비에서 다시 실행하세요.",
            ),
        };
        self.pick(
            format!(
                "Noise: other processes or the hypervisor disturbed {disturbed} of the {all} \
                 rounds this rests on{most}."
            ),
            format!(
                "잡음: 이 결론의 근거인 {all}라운드 중 {disturbed}라운드를 다른 프로세스나 \
                 하이퍼바이저가 방해했습니다.{most}"
            ),
        )
    }

    /// `spread` is of logarithms.
    pub fn pace(self, spread: f64) -> String {
        let percent = crate::judge::metric::digits(spread * 100.0);
        self.pick(
            format!(
                "The speed of the server's cores varied by {percent} % between rounds (standard deviation of \
                 the time of a fixed piece of work)."
            ),
            format!(
                "라운드마다 서버 코어의 속도가 {percent} % 달랐습니다(같은 일을 하는 데 걸린 시간의 표준편차)."
            ),
        )
    }

    /// A prediction counts shared memory several times.
    pub fn shared_memory(self, variant: &str, rss: f64, memory: f64) -> String {
        let (rss, memory) = (Metric::PeakRss.show(rss), Metric::PeakMemory.show(memory));
        match self {
            Self::En => format!(
                "`peak_rss` of `{variant}` counts what its processes share once for each: {rss}, of which \
                 the machine needs {memory}; a prediction about `peak_memory` is about that"
            ),
            Self::Ko => format!(
                "`{variant}`의 `peak_rss`는 프로세스들이 공유하는 메모리를 프로세스마다 셉니다. 합계는 {rss}이지만 \
                 장비에 필요한 메모리는 {memory}입니다. 이 값에 대한 예측에는 `peak_memory`를 쓰세요"
            ),
        }
    }

    /// Messages of the generator.
    pub fn troubles(self, variant: &str, exceptions: bool, list: &[(String, u64)]) -> String {
        let list: Vec<String> = list
            .iter()
            .map(|(message, count)| {
                self.pick(format!("{count} × {message}"), format!("«{message}» {count}번"))
            })
            .collect();
        let list = list.join("; ");
        match (self, exceptions) {
            (Self::En, true) => format!("iterations of `{variant}` threw: {list}"),
            (Self::En, false) => format!("requests of `{variant}` were not good: {list}"),
            (Self::Ko, true) => format!("`{variant}`의 스크립트 예외: {list}"),
            (Self::Ko, false) => format!("`{variant}`의 비정상 요청: {list}"),
        }
    }

    pub fn share_of_rounds(self, variant: &str, count: usize, all: usize) -> String {
        self.pick(
            format!("`{variant}` {count} of {all}"),
            format!("`{variant}` {all}라운드 중 {count}라운드"),
        )
    }

    pub fn doubt(self, warning: Warning, shares: &str) -> String {
        let text = self.warning(warning);
        self.pick(format!("{text} (rounds of {shares})"), format!("{text} ({shares})"))
    }

    pub fn cpus(self, server: Option<&str>, generator: &str) -> String {
        match (self, server) {
            (Self::En, Some(server)) => {
                format!("the server ran on CPUs {server} and the generator on CPUs {generator}")
            }
            (Self::En, None) => {
                format!("the generator ran on CPUs {generator}, the server wherever it was started")
            }
            (Self::Ko, Some(server)) => {
                format!("서버는 CPU {server}, 부하 생성기는 CPU {generator}에서 실행했습니다")
            }
            (Self::Ko, None) => format!(
                "부하 생성기는 CPU {generator}에서, 서버는 시작된 곳에서 그대로 실행했습니다"
            ),
        }
    }
}
