// Sign-ups at five times what one hashing thread can do, at a constant rate, and somebody who reads a
// cached track 500 times a second. Run by hand against a server that is up:
//
//   madang serve --demo --data /tmp/overload --set guard.exempt=127.0.0.0/8
//   madang load experiments/sign-up/overload.js -e SIGN_UPS=350
//   madang load experiments/sign-up/overload.js -e SIGN_UPS=0    # while a foreign thread spins
import http from 'k6/http';
import exec from 'k6/execution';
import { Trend } from 'k6/metrics';

const base = __ENV.BASE_URL || 'http://127.0.0.1:8080';
const duration = __ENV.DURATION || '5s';
const signUps = Number(__ENV.SIGN_UPS || 350);
const run = Date.now();

const refused = new Trend('refused', true);
const made = new Trend('made', true);

const scenarios = {
  bystander: {
    executor: 'constant-arrival-rate',
    exec: 'read',
    rate: 500,
    timeUnit: '1s',
    duration,
    preAllocatedVUs: 50,
    maxVUs: 200,
  },
};
if (signUps > 0) {
  scenarios.sign_up = {
    executor: 'constant-arrival-rate',
    exec: 'signUp',
    rate: signUps,
    timeUnit: '1s',
    duration,
    preAllocatedVUs: 50,
    maxVUs: 1000,
  };
}

export const options = {
  scenarios,
  summaryTrendStats: ['avg', 'p(50)', 'p(95)', 'p(99)', 'max'],
  thresholds: { 'http_req_duration{scenario:bystander}': ['max>=0'] },
};

export function read() {
  http.get(`${base}/v1/tracks/4`);
}

export function signUp() {
  const body = JSON.stringify({
    nickname: `u${run}-${exec.scenario.iterationInTest}`,
    password: 'a password of some length',
    region_name: '서울특별시',
  });
  const res = http.post(`${base}/v1/auth/user/register`, body, {
    headers: { 'Content-Type': 'application/json' },
  });
  (res.status === 201 ? made : refused).add(res.timings.duration);
}
