// One attacker who knows 200 names and tries wrong passwords at a constant rate, and 49 people behind
// the same address who log in once each, spread over the time of the attack once it is under way.
import http from 'k6/http';
import crypto from 'k6/crypto';
import encoding from 'k6/encoding';
import exec from 'k6/execution';
import { check, sleep } from 'k6';
import { Counter, Trend } from 'k6/metrics';

const base = __ENV.BASE_URL || 'http://127.0.0.1:8080';
const duration = __ENV.DURATION || '3m';
const seconds = Number(duration.replace('s', ''));
const people = 49;
const known = 200;
// Seconds after which the attack is under way: what it is allowed has been used up by then.
const underWay = Number(__ENV.UNDER_WAY || 10);
// Longest that somebody tries to get in, in seconds.
const patience = 10;

const legitimateIn = new Counter('legitimate_in');
const shutOut = new Counter('shut_out');
const gettingIn = new Trend('getting_in', true);

export const options = {
  scenarios: {
    attack: {
      executor: 'constant-arrival-rate',
      exec: 'attack',
      rate: Number(__ENV.RATE || 10000),
      timeUnit: '1s',
      duration,
      preAllocatedVUs: 50,
      maxVUs: 200,
    },
    legitimate: {
      executor: 'per-vu-iterations',
      exec: 'logIn',
      vus: people,
      iterations: 1,
      maxDuration: `${seconds + 2 * patience}s`,
    },
  },
  // Thresholds that always hold: they make the figures of each scenario part of the report.
  thresholds: {
    'http_req_duration{scenario:legitimate}': ['max>=0'],
    'http_req_failed{scenario:legitimate}': ['rate>=0'],
    'http_req_duration{scenario:attack}': ['max>=0'],
    'http_reqs{scenario:attack}': ['count>=0'],
  },
};

const user = (n) => `user-${String(n).padStart(4, '0')}`;

// What is a good answer depends on who asks; to be asked for a proof is one for both.
const refusal = http.expectedStatuses(401, 429);
const entry = http.expectedStatuses(200, 429);

function post(nickname, password, responseCallback, altcha) {
  const body = altcha ? { nickname, password, altcha } : { nickname, password };
  return http.post(`${base}/v1/auth/user/login`, JSON.stringify(body), {
    headers: { 'Content-Type': 'application/json' },
    responseCallback,
    tags: { name: 'login' },
  });
}

export function attack() {
  const n = exec.scenario.iterationInTest;
  const res = post(user(people + 1 + (n % known)), `guess number ${Math.floor(n / known)}`, refusal);
  check(res, { 'not let in': (r) => r.status === 401 || r.status === 429 });
}

export function logIn() {
  const n = exec.scenario.iterationInTest;
  sleep(underWay + ((seconds - underWay) * n) / people);
  const started = Date.now();
  let answer = null;
  for (;;) {
    const res = post(user(n + 1), 'madang-seed', entry, answer);
    answer = null;
    if (res.status === 200) {
      legitimateIn.add(1);
      gettingIn.add(Date.now() - started);
      check(res, { 'let in': () => true });
      return;
    }
    const challenge = res.status === 429 ? res.json('challenge') : null;
    if (challenge) {
      answer = solve(challenge);
      continue;
    }
    const wait = Number(res.headers['Retry-After'] || 1);
    if ((Date.now() - started) / 1000 + wait > patience) break;
    sleep(wait);
  }
  shutOut.add(1);
  check(null, { 'let in': () => false });
}

// What an ALTCHA widget does in a browser.
function solve(challenge) {
  for (let number = 0; number <= challenge.maxnumber; number++) {
    if (crypto.sha256(challenge.salt + number, 'hex') === challenge.challenge) {
      const { algorithm, salt, signature } = challenge;
      return encoding.b64encode(
        JSON.stringify({ algorithm, challenge: challenge.challenge, number, salt, signature }),
      );
    }
  }
  return null;
}
