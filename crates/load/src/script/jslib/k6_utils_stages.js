import execution from 'k6/execution';

/** The stages of the scenario that runs, and how long it has been running, in milliseconds. */
function stagesAndElapsed() {
  const { scenario } = execution;
  const { stages } = execution.test.options.scenarios?.[scenario.name] ?? {};
  if (!stages || stages.length === 0) {
    throw new Error('only ramping-vus or ramping-arravial-rate supports stages, '
      + 'it is not possible to get a stage index on other executors.');
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
  const change = index > 0 ? stages[index].target - stages[index - 1].target : 1;
  const profile = change === 0 ? 'steady' : change > 0 ? 'ramp-up' : 'ramp-down';
  execution.vu.metrics.tags.stage_profile = profile;
}
