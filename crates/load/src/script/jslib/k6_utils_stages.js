import execution from 'k6/execution';

/** The stages of the scenario that runs, and how long it has been running, in milliseconds. */
function stagesAndElapsed() {
  const { scenario } = execution;
  const { scenarios } = execution.test.options;
  const stages = scenarios && scenarios[scenario.name] && scenarios[scenario.name].stages;
  if (!stages || stages.length === 0) {
    throw new Error(`the scenario \`${scenario.name}\` has no stages`);
  }
  return { stages, elapsed: Date.now() - scenario.startTime };
}

/** The index of the stage that runs; of the last one when all are over. */
export function getCurrentStageIndex() {
  const { stages, elapsed } = stagesAndElapsed();
  let end = 0;
  for (let index = 0; index < stages.length; index += 1) {
    end += parseDuration(stages[index].duration);
    if (elapsed < end) return index;
  }
  return stages.length - 1;
}

/** Tags everything with `stage`, the index of the stage that runs. */
export function tagWithCurrentStageIndex() {
  execution.vu.metrics.tags.stage = getCurrentStageIndex();
}

/** Tags everything with `stage_profile`: `ramp-up`, `steady` or `ramp-down`. */
export function tagWithCurrentStageProfile() {
  const { stages } = stagesAndElapsed();
  const index = getCurrentStageIndex();
  const before = index > 0 ? stages[index - 1].target : 0;
  const { target } = stages[index];
  const steady = target === before;
  const profile = steady ? 'steady' : target > before ? 'ramp-up' : 'ramp-down';
  execution.vu.metrics.tags.stage_profile = profile;
}
