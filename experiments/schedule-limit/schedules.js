// What both loads have in common: users who are logged in, and schedules that they send.
import http from 'k6/http';
import { check, fail } from 'k6';
import { Counter } from 'k6/metrics';

export const base = __ENV.BASE_URL || 'http://127.0.0.1:8080';

const created = new Counter('created');
const refused = new Counter('refused');

// The one or the other is a right answer: which, the data say afterwards.
http.setResponseCallback(http.expectedStatuses(200, 201, 409));

// Tokens of the first so many seeded users.
export function logIn(users) {
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

export function schedule(title) {
  return JSON.stringify({
    title,
    locationId: 1,
    startAt: '2027-05-01T09:00:00+09:00',
    endAt: '2027-05-01T10:00:00+09:00',
  });
}

export function params(token) {
  return {
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${token}` },
    tags: { name: 'create schedule' },
  };
}

export function count(res) {
  check(res, { 'created or refused': (r) => r.status === 201 || r.status === 409 });
  if (res.status === 201) created.add(1);
  if (res.status === 409) refused.add(1);
}
