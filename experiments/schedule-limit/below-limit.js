// Each of 400 users sends eight schedules at the same time, of which five fit.
import http from 'k6/http';
import exec from 'k6/execution';
import { check, fail } from 'k6';
import { Counter } from 'k6/metrics';

const base = __ENV.BASE_URL || 'http://127.0.0.1:8080';
const users = 400;
const atOnce = 8;

const created = new Counter('created');
const refused = new Counter('refused');

export const options = {
  setupTimeout: '2m',
  batch: atOnce,
  batchPerHost: atOnce,
  scenarios: {
    create: { executor: 'shared-iterations', vus: 8, iterations: users, maxDuration: '2m' },
  },
};

http.setResponseCallback(http.expectedStatuses(200, 201, 409));

export function setup() {
  const tokens = [];
  for (let n = 1; n <= users; n++) {
    const body = JSON.stringify({
      nickname: `user-${String(n).padStart(4, '0')}`,
      password: 'madang-seed',
    });
    const res = http.post(`${base}/v1/auth/user/login`, body, {
      headers: { 'Content-Type': 'application/json' },
      tags: { name: 'login' },
    });
    if (res.status !== 200) fail(`log-in of user ${n}: ${res.status} ${res.body}`);
    tokens.push(res.json('token'));
  }
  return tokens;
}

export default function (tokens) {
  const params = {
    headers: {
      'Content-Type': 'application/json',
      Authorization: `Bearer ${tokens[exec.scenario.iterationInTest]}`,
    },
    tags: { name: 'create schedule' },
  };
  const requests = [];
  for (let n = 0; n < atOnce; n++) {
    const body = JSON.stringify({
      title: `schedule ${n}`,
      locationId: 1,
      startAt: '2027-05-01T09:00:00+09:00',
      endAt: '2027-05-01T10:00:00+09:00',
    });
    requests.push(['POST', `${base}/v1/schedules`, body, params]);
  }
  for (const res of http.batch(requests)) {
    check(res, { 'created or refused': (r) => r.status === 201 || r.status === 409 });
    if (res.status === 201) created.add(1);
    if (res.status === 409) refused.add(1);
  }
}
