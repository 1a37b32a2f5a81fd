//! The report for a page.

use std::fmt::Write;

use super::{
    goal::{number, percent},
    plan::Steering,
    report::LimitReport,
    text,
};

pub fn render(report: &LimitReport) -> String {
    let mut page = String::new();
    // Writing into a string cannot fail.
    let _ = write_page(&mut page, report);
    page
}

fn write_page(page: &mut String, report: &LimitReport) -> std::fmt::Result {
    writeln!(page, "# Limits: {}\n\n{}\n", report.name, report.question)?;
    writeln!(page, "Goal: {}.\n", report.goal)?;
    for line in report.sentence.lines() {
        writeln!(page, "**{line}**\n")?;
    }
    writeln!(page, "| {} |\n|---|---|---|---|---|", text::HEADS.join(" | "))?;
    for variant in &report.variants {
        writeln!(page, "| {} |", text::row(variant).join(" | "))?;
    }
    if !report.warnings.is_empty() {
        writeln!(page, "\n## Warnings\n")?;
        for warning in &report.warnings {
            writeln!(page, "- {}", warning.replace('\n', "\n  "))?;
        }
    }
    write_method(page, report)?;
    write_tries(page, report)
}

fn write_method(page: &mut String, report: &LimitReport) -> std::fmt::Result {
    let settings = &report.settings;
    let steering = match settings.steering {
        Steering::Script => "the script read RATE",
        Steering::Generator => "the script's default function was started by the clock",
    };
    writeln!(page, "\n## How it was measured\n")?;
    writeln!(
        page,
        "Iterations started by the clock ({steering}), {} s at each rate after {} s of warm-up, each \
         time on a fresh process with the same data. The rate rose until the goal was missed \
         twice in a row; then the gap was halved until it was at most {} wide. {} searches for \
         each variant, in turn (seed {}). Capacities are geometric means; intervals are 95 %, by \
         Student's t on logarithms, of ratios within blocks. Response times count from when an \
         iteration should have started. Highest rate allowed: {}/s.\n",
        settings.duration_seconds,
        settings.warm_up_seconds,
        percent(settings.resolution),
        settings.blocks,
        report.seed,
        settings.max_rate,
    )?;
    let machine = &report.machine;
    let unknown = || "unknown".to_owned();
    writeln!(
        page,
        "{} to {}; {} × {}, Linux {}; {}; script `{}`.\n",
        report.started,
        report.finished,
        machine.cpus.map_or_else(unknown, |cpus| cpus.to_string()),
        machine.cpu.clone().unwrap_or_else(unknown),
        machine.kernel.clone().unwrap_or_else(unknown),
        report
            .versions
            .iter()
            .map(|(name, version)| format!("{name} {version}"))
            .collect::<Vec<_>>()
            .join(", "),
        report.script,
    )
}

fn write_tries(page: &mut String, report: &LimitReport) -> std::fmt::Result {
    writeln!(page, "## Every try\n")?;
    writeln!(
        page,
        "| block | variant | rate | p95, ms | good/s | outcome |\n|---|---|---|---|---|---|"
    )?;
    for tried in &report.tries {
        let outcome = match (&tried.void, &tried.missed) {
            (Some(why), _) => format!("does not count: {why}"),
            (None, Some(why)) => format!("missed: {why}"),
            (None, None) => "held".to_owned(),
        };
        // A pipe or line end would break the table.
        let outcome = outcome.replace('|', "\\|").replace('\n', " ");
        let p95 = tried.figures.and_then(|seen| seen.p95_ms).map_or_else(String::new, number);
        let good = tried.figures.map_or_else(String::new, |seen| number(seen.goodput));
        let (block, variant, rate) = (tried.block, &tried.variant, tried.rate);
        writeln!(page, "| {block} | {variant} | {rate} | {p95} | {good} | {outcome} |")?;
    }
    Ok(())
}
