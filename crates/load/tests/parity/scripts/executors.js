import exec from 'k6/execution';
import { sleep } from 'k6';

// One after the other, so that their messages have an order.
const at = (place, scenario) => ({
  startTime: `${place * 150}ms`, gracefulStop: '5s', env: { OWN: `env ${place}` }, tags: { own: `tag ${place}` }, ...scenario,
});
export const options = {
  tags: { run: 'all' },
  scenarios: {
    shared: at(0, { executor: 'shared-iterations', vus: 3, iterations: 7, exec: 'once' }),
    shared_default: at(1, { executor: 'shared-iterations', env: {}, tags: {} }),
    per_vu: at(2, { executor: 'per-vu-iterations', vus: 2, iterations: 3, exec: 'once', maxDuration: '5s' }),
    constant: at(3, { executor: 'constant-vus', vus: 2, duration: '1s', exec: 'pauses' }),
    ramping: at(4, { executor: 'ramping-vus', startVUs: 2, stages: [{ duration: '1s', target: 2 }], gracefulRampDown: '3s', exec: 'pauses' }),
    arrival: at(5, { executor: 'constant-arrival-rate', rate: 100, timeUnit: '10s', duration: '1050ms', preAllocatedVUs: 2, maxVUs: 3, exec: 'once' }),
    ramping_arrival: at(6, { executor: 'ramping-arrival-rate', startRate: 10, timeUnit: '1s', stages: [{ duration: '1050ms', target: 10 }], preAllocatedVUs: 2, exec: 'once' }),
    stopped: at(7, { executor: 'per-vu-iterations', vus: 2, iterations: 1, maxDuration: '1s', gracefulStop: '0s', exec: 'hangs' }),
    finishes: at(8, { executor: 'constant-vus', vus: 1, duration: '1s', gracefulStop: '5s', exec: 'late' }),
    ramped_down: at(9, { executor: 'ramping-vus', startVUs: 2, stages: [{ duration: '1s', target: 2 }, { duration: '0s', target: 0 }], gracefulRampDown: '0s', gracefulStop: '5s', exec: 'hangs' }),
  },
  thresholds: {
    'iterations{scenario:shared}': ['count==7'],
    'iterations{own:tag 2}': ['count==6'],
    'iterations{scenario:constant}': ['count==8'],
    'iterations{scenario:ramping}': ['count==8'],
    'iterations{scenario:arrival}': ['count==11'],
    'iterations{scenario:ramping_arrival}': ['count==10'],
    'iterations{scenario:stopped}': ['count==0'],
    'iterations{scenario:finishes}': ['count==1'],
    'iterations{scenario:ramped_down}': ['count==0'],
    'dropped_iterations{scenario:stopped}': ['count==0'],
  },
};

function tell() {
  const { scenario, vu } = exec;
  if (scenario.iterationInTest > 0) return;
  const since = Date.now() - scenario.startTime;
  console.log(JSON.stringify([
    scenario.name, scenario.executor, scenario.iterationInTest, scenario.iterationInInstance, since >= 0 && since < 2000,
    scenario.progress >= 0 && scenario.progress <= 1, __ENV.OWN, Object.entries(vu.tags).sort(), vu.iterationInScenario,
  ]));
}
export default tell;
export const once = () => tell();
export function pauses() { tell(); sleep(0.3); }
export function late() { tell(); sleep(1.3); console.log('late'); }
export function hangs() { tell(); sleep(30); }
