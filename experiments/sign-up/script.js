// The documented load, 100 users who sign up one after the other, and a bystander: somebody who only
// reads a running track meanwhile, at a constant rate.
import http from 'k6/http';
import exec from 'k6/execution';
import { check, sleep } from 'k6';
import { Counter } from 'k6/metrics';

const base = __ENV.BASE_URL || 'http://127.0.0.1:8080';
const duration = __ENV.DURATION || '3m';

const created = new Counter('created');
const shed = new Counter('shed');

export const options = {
  scenarios: {
    sign_up: { executor: 'constant-vus', exec: 'signUp', vus: 100, duration, gracefulStop: '15s' },
    bystander: {
      executor: 'constant-arrival-rate',
      exec: 'read',
      rate: 100,
      timeUnit: '1s',
      duration,
      preAllocatedVUs: 20,
      maxVUs: 100,
      gracefulStop: '15s',
    },
  },
  // Thresholds that always hold: they make the figures of each scenario part of the report.
  thresholds: {
    'http_req_duration{scenario:sign_up}': ['max>=0'],
    'http_req_failed{scenario:sign_up}': ['rate>=0'],
    'http_req_duration{scenario:bystander}': ['max>=0'],
    'http_req_failed{scenario:bystander}': ['rate>=0'],
  },
};

export function signUp() {
  const body = JSON.stringify({
    nickname: `runner-${exec.scenario.iterationInTest}`,
    password: 'a password of some length',
    region_name: '서울특별시',
  });
  const res = http.post(`${base}/v1/auth/user/register`, body, {
    headers: { 'Content-Type': 'application/json' },
    tags: { name: 'register' },
  });
  check(res, { 'signed up': (r) => r.status === 201 });
  if (res.status === 201) created.add(1);
  if (res.status === 503) {
    // Told when to come back, an honest client does.
    shed.add(1);
    sleep(Number(res.headers['Retry-After'] || 1));
  }
}

export function read() {
  const res = http.get(`${base}/v1/tracks/4`, { tags: { name: 'track' } });
  check(res, { 'track is there': (r) => r.status === 200 });
}
