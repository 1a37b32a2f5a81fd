// The documented requests, all refused, as fast as fifty of them at a time are answered.
import http from 'k6/http';
import exec from 'k6/execution';
import { base, count, logIn, params, schedule } from './schedules.js';

const users = 200;

export const options = { vus: 50, duration: '20s', setupTimeout: '2m' };

export const setup = () => logIn(users);

export default function (tokens) {
  const n = exec.scenario.iterationInTest;
  count(http.post(`${base}/v1/schedules`, schedule(`schedule ${n}`), params(tokens[n % users])));
}
