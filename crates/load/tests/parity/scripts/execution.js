import exec from 'k6/execution';
export const options = { scenarios: { named: { executor: 'per-vu-iterations', vus: 1, iterations: 2, env: { OWN: 'x' }, tags: { own: 'y' }, exec: 'other' } } };
export function other() {
  console.log(JSON.stringify([exec.scenario.name, exec.scenario.executor, exec.scenario.iterationInTest, exec.scenario.iterationInInstance]));
  console.log(JSON.stringify([exec.vu.idInTest, exec.vu.idInInstance, exec.vu.iterationInScenario, exec.vu.iterationInInstance]));
  console.log(JSON.stringify([exec.instance.vusActive, exec.instance.vusInitialized, exec.instance.iterationsInterrupted]));
  console.log(JSON.stringify([__VU, __ITER, __ENV.OWN, exec.vu.tags.own]));
}
