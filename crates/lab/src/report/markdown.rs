//! The report for a page: everything a reader needs to judge or repeat it, except the raw rounds.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use super::{Report, TargetPart, invariants, summary, text};
use crate::{
    record::{Outcome, Pinned},
    report::Comparison,
    time,
};

pub fn render(report: &Report) -> String {
    let mut page = String::new();
    // Writing into a string cannot fail.
    let _ = write_page(&mut page, report);
    page
}

fn write_page(page: &mut String, report: &Report) -> std::fmt::Result {
    let experiment = &report.experiment;
    writeln!(page, "# {}\n\n{}\n", experiment.name, experiment.question)?;
    let (broken, held) = invariants::lines(&report.invariants);
    for line in &broken {
        match line.strip_prefix("  ") {
            Some(round) => writeln!(page, "- {round}")?,
            None => writeln!(page, "**{line}**\n")?,
        }
    }
    if !broken.is_empty() {
        writeln!(page)?;
    }
    for answer in &report.predictions {
        writeln!(page, "**{}**\n", answer.sentence)?;
    }
    if let Some(held) = held {
        writeln!(page, "{held}\n")?;
    }
    if let Some(noise) = &report.noise {
        writeln!(page, "**{noise}**\n")?;
    }
    for prediction in &experiment.predictions {
        writeln!(page, "Predicted beforehand: {prediction}.\n")?;
    }
    write_table(page, report)?;
    write_costs(page, report)?;
    write_documented(page, report)?;
    if !report.warnings.is_empty() {
        writeln!(page, "## Warnings\n")?;
        for warning in &report.warnings {
            writeln!(page, "- {}", warning.replace('\n', "\n  "))?;
        }
        writeln!(page)?;
    }
    write_method(page, report)?;
    write_circumstances(page, report)
}

fn write_table(page: &mut String, report: &Report) -> std::fmt::Result {
    write!(page, "| metric |")?;
    for variant in &report.variants {
        let mark = if variant.is_reference { " (reference)" } else { "" };
        write!(page, " {}{mark} |", variant.name)?;
    }
    write!(page, "\n|---|")?;
    for _ in &report.variants {
        write!(page, "---|")?;
    }
    writeln!(page)?;
    let rows = report.variants.first().map_or(0, |variant| variant.metrics.len());
    for place in 0..rows {
        let Some(first) = report.variants.first() else { break };
        write!(page, "| {} |", first.metrics[place].metric.label())?;
        for variant in &report.variants {
            let row = &variant.metrics[place];
            write!(page, " {}", text::value(row))?;
            match &row.comparison {
                Comparison::Reference => {}
                Comparison::Ratio(estimate) => {
                    write!(page, "<br>{}", summary::show(estimate))?;
                    if let Some(found) = row.finding {
                        write!(page, ": {}", found.word.text())?;
                    }
                }
                Comparison::NoRatio(why) => write!(page, "<br>no ratio: {why}")?,
            }
            if let Some(documented) = &row.documented {
                write!(page, "<br>as documented: {}", cell(documented))?;
            }
            write!(page, " |")?;
        }
        writeln!(page)?;
    }
    writeln!(page)
}

fn write_costs(page: &mut String, report: &Report) -> std::fmt::Result {
    let cost = |variant: &super::VariantSummary| variant.figures?.cost_per_million_good;
    if report.variants.iter().all(|variant| cost(variant).is_none()) {
        return Ok(());
    }
    writeln!(page, "A million good requests under this load cost:\n")?;
    for variant in &report.variants {
        if let Some(cost) = cost(variant) {
            writeln!(page, "- {}: {cost:.4}", variant.name)?;
        }
    }
    writeln!(page)
}

fn write_documented(page: &mut String, report: &Report) -> std::fmt::Result {
    if report.variants.iter().all(|variant| variant.documented.is_empty()) {
        return Ok(());
    }
    writeln!(page, "Further figures as documented by others:\n")?;
    for variant in &report.variants {
        for (name, figure) in &variant.documented {
            writeln!(page, "- {}: {} {}", variant.name, cell(name), cell(figure))?;
        }
    }
    writeln!(page)
}

fn write_method(page: &mut String, report: &Report) -> std::fmt::Result {
    let settings = &report.settings;
    writeln!(page, "## How it was measured\n")?;
    writeln!(
        page,
        "{} complete blocks of {} planned; each block ran every variant once, in random order \
         (seed {}), on a fresh process with the same data. Warm-up {}, measured {}.",
        report.complete_blocks,
        settings.blocks,
        report.seed,
        time::exact(settings.warm_up),
        settings.duration.map_or_else(|| "as the script says".to_owned(), time::exact),
    )?;
    writeln!(
        page,
        "Values are geometric means over rounds (arithmetic ones where a round has zero). A ratio is against the reference in the same \
         block; intervals are 95 %, by Student's paired t on the logarithms of the ratios. The word beside a \
         ratio that no prediction is about: \"no difference\" when its whole interval lies within \
         {} % of 1, \"higher\" or \"lower\" when its p-value, adjusted by Holm over all of them, is at \
         most 0.05. Good \
         requests are those that did not fail and none of whose checks failed; response times are \
         over all requests. Server CPU and memory are of its whole process tree.{}\n",
        crate::metric::digits(report.experiment.band * 100.0),
        pinning(report)
    )
}

/// Which CPUs server and generator had, as far as all rounds agree: the machine may change under a
/// run, and a `url` cannot be pinned.
fn pinning(report: &Report) -> String {
    let pinned = report.rounds.iter().filter_map(|round| match &round.outcome {
        Outcome::Measured(measured) => Some((&round.variant, measured.cpus.as_ref())),
        Outcome::Failed(_) => None,
    });
    let mut ways: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (variant, cpus) in pinned {
        let way = match cpus {
            None => "server and generator shared all CPUs".to_owned(),
            Some(Pinned { server: Some(server), generator }) => {
                format!("the server ran on CPUs {server} and the generator on CPUs {generator}")
            }
            Some(Pinned { server: None, generator }) => {
                format!("the generator ran on CPUs {generator}, the server wherever it was started")
            }
        };
        ways.entry(way).or_default().insert(variant);
    }
    let only = ways.len() == 1;
    let sentence = |(way, variants): (String, BTreeSet<&str>)| {
        let variants: Vec<&str> = variants.into_iter().collect();
        let whose = if only {
            "all rounds".to_owned()
        } else {
            format!("rounds of {}", variants.join(", "))
        };
        format!(" In {whose}, {way}.")
    };
    ways.into_iter().map(sentence).collect()
}

fn write_circumstances(page: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(page, "## Circumstances\n")?;
    let finished = report.finished.as_deref().unwrap_or("its being killed");
    writeln!(page, "- {} to {finished}", report.started)?;
    for moment in &report.resumed {
        writeln!(page, "- interrupted, and resumed {moment}")?;
    }
    let machine = &report.machine;
    let unknown = || "unknown".to_owned();
    writeln!(
        page,
        "- {} × {}, {} memory, Linux {}, {}",
        machine.cpus.map_or_else(unknown, |cpus| cpus.to_string()),
        machine.cpu.clone().unwrap_or_else(unknown),
        machine.memory_bytes.map_or_else(unknown, |bytes| format!("{} MiB", bytes >> 20)),
        machine.kernel.clone().unwrap_or_else(unknown),
        machine.system.clone().unwrap_or_else(unknown),
    )?;
    for (name, version) in &report.versions {
        writeln!(page, "- {name} {version}")?;
    }
    let experiment = &report.experiment;
    writeln!(page, "- experiment `{}`, script `{}`", experiment.file, experiment.script)?;
    for variant in &experiment.variants {
        let (kind, how) = match &variant.target {
            TargetPart::Serve(settings) => {
                ("serve", settings.to_string().trim().replace('\n', ", "))
            }
            TargetPart::Command(argv) => ("command", argv.join(" ")),
            TargetPart::Url(url) => ("url", url.clone()),
        };
        let budget = variant.cpus.as_ref().map_or_else(String::new, |cpus| format!(", {cpus}"));
        writeln!(page, "- variant `{}`: {kind} `{how}`{budget}", variant.name)?;
    }
    writeln!(page, "\nEvery round is in `report.json` beside this page.")
}

/// A pipe or line end would break the table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
