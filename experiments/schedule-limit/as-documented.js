// The documented load: 400 requests a second at a constant rate, 200 users who are logged in before.
import http from 'k6/http';
import exec from 'k6/execution';
import { base, count, logIn, params, schedule } from './schedules.js';

const users = 200;

export const options = {
  setupTimeout: '2m',
  scenarios: {
    create: {
      executor: 'constant-arrival-rate',
      rate: Number(__ENV.RATE || 400),
      timeUnit: '1s',
      duration: __ENV.DURATION || '5m',
      preAllocatedVUs: 50,
      maxVUs: 200,
    },
  },
};

export const setup = () => logIn(users);

export default function (tokens) {
  const n = exec.scenario.iterationInTest;
  count(http.post(`${base}/v1/schedules`, schedule(`schedule ${n}`), params(tokens[n % users])));
}
