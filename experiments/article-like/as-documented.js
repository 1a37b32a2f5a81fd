// 20 likes a second, then a spike of 100 a second: the documented rates, for a twentieth of the time.
// Each like is of another pair of user and article.
import http from 'k6/http';
import exec from 'k6/execution';
import { base, count, logIn, params, users } from './likes.js';

const steadySeconds = Number(__ENV.STEADY || 30);
const spikeSeconds = Number(__ENV.SPIKE || 3);
const steadyRate = 20;
const spikeRate = 100;

export const options = {
  scenarios: {
    steady: {
      executor: 'constant-arrival-rate',
      exec: 'steady',
      rate: steadyRate,
      timeUnit: '1s',
      duration: `${steadySeconds}s`,
      preAllocatedVUs: 20,
      maxVUs: 50,
    },
    spike: {
      executor: 'constant-arrival-rate',
      exec: 'spike',
      rate: spikeRate,
      timeUnit: '1s',
      startTime: `${steadySeconds}s`,
      duration: `${spikeSeconds}s`,
      preAllocatedVUs: 50,
      maxVUs: 200,
    },
  },
  // Thresholds that always hold: they make the figures of each part of the load part of the report, and
  // those of likes alone, without the log-ins before them.
  thresholds: {
    'http_req_duration{name:like}': ['max>=0'],
    'http_req_duration{scenario:steady}': ['max>=0'],
    'http_req_duration{scenario:spike}': ['max>=0'],
  },
};

export function setup() {
  return logIn();
}

function toggle(tokens, pair) {
  const article = 1 + Math.floor(pair / users);
  count(http.post(`${base}/v1/articles/${article}/like`, null, params(tokens[pair % users])));
}

export function steady(tokens) {
  toggle(tokens, exec.scenario.iterationInTest);
}

export function spike(tokens) {
  // Behind the pairs of the steady part, with room for one more of them.
  toggle(tokens, steadyRate * steadySeconds + 1 + exec.scenario.iterationInTest);
}
