// Each of 400 users sends eight schedules at the same time, of which five fit.
import http from 'k6/http';
import exec from 'k6/execution';
import { base, count, logIn, params, schedule } from './schedules.js';

const users = 400;
const atOnce = 8;

export const options = {
  setupTimeout: '2m',
  batch: atOnce,
  batchPerHost: atOnce,
  scenarios: {
    create: { executor: 'shared-iterations', vus: 8, iterations: users, maxDuration: '2m' },
  },
};

export const setup = () => logIn(users);

export default function (tokens) {
  const own = params(tokens[exec.scenario.iterationInTest]);
  const requests = [];
  for (let n = 0; n < atOnce; n++) {
    requests.push(['POST', `${base}/v1/schedules`, schedule(`schedule ${n}`), own]);
  }
  http.batch(requests).forEach(count);
}
