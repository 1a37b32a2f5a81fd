//! The options as shown by `exec.test.options`: k6's names, with all values filled in.

use serde_json::{Map, Value, json};

use super::duration::format_duration as text;
use super::{ExecutorConfig, Options, Scenario, Stage, VuPool};

pub(crate) fn document(options: &Options) -> Value {
    let scenarios: Map<String, Value> =
        options.scenarios.iter().map(|one| (one.name.clone(), scenario(one))).collect();
    let thresholds: Map<String, Value> = options
        .thresholds
        .iter()
        .map(|one| {
            let sources: Vec<&str> = one.thresholds.iter().map(|rule| &*rule.source).collect();
            (one.metric.clone(), json!(sources))
        })
        .collect();
    json!({
        "scenarios": scenarios,
        "thresholds": thresholds,
        "tags": pairs(&options.tags),
        "setupTimeout": text(options.setup_timeout),
        "teardownTimeout": text(options.teardown_timeout),
        "minIterationDuration": text(options.min_iteration_duration),
        "noSetup": options.no_setup,
        "noTeardown": options.no_teardown,
        "discardResponseBodies": options.discard_response_bodies,
        "maxRedirects": options.max_redirects,
        "noConnectionReuse": options.client.no_connection_reuse,
        "noVUConnectionReuse": options.no_vu_connection_reuse,
        "summaryTimeUnit": options.summary_time_unit,
        "summaryTrendStats": options.summary_trend_stats,
        "systemTags": options.system_tags.names(),
        "rps": (options.rps > 0).then_some(options.rps),
        "throw": options.throw,
        "userAgent": options.client.user_agent,
    })
}

fn stages(stages: &[Stage]) -> Value {
    let stage = |one: &Stage| json!({ "duration": text(one.duration), "target": one.target });
    stages.iter().map(stage).collect()
}

fn pairs(pairs: &[(String, String)]) -> Value {
    pairs.iter().map(|(key, value)| (key.clone(), json!(value))).collect()
}

fn scenario(scenario: &Scenario) -> Value {
    let own = match &scenario.executor {
        ExecutorConfig::ConstantVus { vus, duration } => {
            json!({ "vus": vus, "duration": text(*duration) })
        }
        ExecutorConfig::RampingVus { start_vus, stages: list, graceful_ramp_down } => json!({
            "startVUs": start_vus, "stages": stages(list),
            "gracefulRampDown": text(*graceful_ramp_down),
        }),
        ExecutorConfig::PerVuIterations { vus, iterations, max_duration }
        | ExecutorConfig::SharedIterations { vus, iterations, max_duration } => {
            json!({ "vus": vus, "iterations": iterations, "maxDuration": text(*max_duration) })
        }
        ExecutorConfig::ConstantArrivalRate { rate, time_unit, duration, pool } => json!({
            "rate": rate, "timeUnit": text(*time_unit), "duration": text(*duration),
            "preAllocatedVUs": pool.pre_allocated_vus, "maxVUs": pool.max_vus,
        }),
        ExecutorConfig::RampingArrivalRate { start_rate, time_unit, stages: list, pool } => {
            let VuPool { pre_allocated_vus, max_vus } = pool;
            json!({
                "startRate": start_rate, "timeUnit": text(*time_unit), "stages": stages(list),
                "preAllocatedVUs": pre_allocated_vus, "maxVUs": max_vus,
            })
        }
    };
    let mut document = json!({
        "executor": scenario.executor.name(),
        "startTime": text(scenario.start_time),
        "gracefulStop": text(scenario.graceful_stop),
        "env": pairs(&scenario.env),
        "exec": scenario.exec,
        "tags": pairs(&scenario.tags),
    });
    if let (Some(document), Value::Object(own)) = (document.as_object_mut(), own) {
        document.extend(own);
    }
    document
}
