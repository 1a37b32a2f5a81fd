// What the three loads have in common: users who are logged in, and likes that they send.
import http from 'k6/http';
import { check, fail } from 'k6';
import { Counter } from 'k6/metrics';

export const base = __ENV.BASE_URL || 'http://127.0.0.1:8080';
export const users = 64;

// Likes that were answered as stored. Each is of a pair that nobody asks for twice.
const acknowledged = new Counter('acknowledged');

// Tokens of all seeded users.
export function logIn() {
  const tokens = [];
  for (let n = 1; n <= users; n++) {
    const nickname = `user-${String(n).padStart(4, '0')}`;
    const body = JSON.stringify({ nickname, password: 'madang-seed' });
    const res = http.post(`${base}/v1/auth/user/login`, body, {
      headers: { 'Content-Type': 'application/json' },
      tags: { name: 'login' },
    });
    if (res.status !== 200) fail(`log-in of ${nickname}: ${res.status} ${res.body}`);
    tokens.push(res.json('token'));
  }
  return tokens;
}

export function params(token) {
  return { headers: { Authorization: `Bearer ${token}` }, tags: { name: 'like' } };
}

// Whether a like was acknowledged.
export function count(res) {
  const good = check(res, { liked: (r) => r.status === 200 && r.json('liked') === true });
  if (good) acknowledged.add(1);
  return good;
}
