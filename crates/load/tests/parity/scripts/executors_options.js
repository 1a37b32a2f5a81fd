// What the script can see of its scenarios, whichever way they were written.
import exec from 'k6/execution';

export const options = {
  scenarios: {
    a: { executor: 'shared-iterations', vus: 1, iterations: 1, env: { A: '1' }, tags: { t: 'x' } },
    b: { executor: 'constant-arrival-rate', rate: 1, duration: '1s', preAllocatedVUs: 1, exec: 'other', startTime: '1m', gracefulStop: '1s' },
    c: { executor: 'ramping-vus', stages: [{ target: 1, duration: '90s' }], startTime: '1m' },
    d: { executor: 'per-vu-iterations', startTime: '2h' },
    e: { executor: 'ramping-arrival-rate', stages: [{ target: 1, duration: 1000 }], preAllocatedVUs: 1, startTime: '1h' },
    f: { executor: 'constant-vus', vus: 2, duration: '1.5s', startTime: '1h' },
  },
};

export default function () {
  const { scenarios } = exec.test.options;
  const given = {
    a: 'executor vus iterations env tags', b: 'executor rate duration preAllocatedVUs exec startTime gracefulStop',
    c: 'executor stages startTime', d: 'executor startTime', e: 'executor stages preAllocatedVUs startTime', f: 'executor vus duration startTime',
  };
  for (const [name, scenario] of Object.entries(scenarios)) {
    const set = given[name].split(' ').map((key) => [key, scenario[key]]);
    console.log(name, JSON.stringify(set));
  }
  exec.test.abort('seen');
}
export function other() {}
