// 20 users who like five articles a second each, the documented spike of 100 a second, while the server is
// killed and started again. Afterwards everybody looks whether what they were told is so.
import http from 'k6/http';
import exec from 'k6/execution';
import { check, sleep } from 'k6';
import { Counter } from 'k6/metrics';
import { base, count, logIn, params } from './likes.js';

const seconds = Number(__ENV.SECONDS || 12);
const perSecond = 5;

// Acknowledged likes that are not there.
const lost = new Counter('lost');

export const options = {
  scenarios: {
    likers: { executor: 'per-vu-iterations', vus: 20, iterations: 1, maxDuration: '2m' },
  },
};

export function setup() {
  return logIn();
}

export default function (tokens) {
  const token = tokens[exec.vu.idInTest - 1];
  const told = [];
  const end = Date.now() + 1000 * seconds;
  for (let article = 1; Date.now() < end; article++) {
    const res = http.put(`${base}/v1/articles/${article}/like`, null, params(token));
    // While there is no server nothing is acknowledged, so there is nothing to be lost.
    if (res.status !== 0 && count(res)) told.push(article);
    sleep(1 / perSecond);
  }
  const asked = { headers: { Authorization: `Bearer ${token}` }, tags: { name: 'look' } };
  for (const article of told) {
    const res = http.get(`${base}/v1/articles/${article}`, asked);
    check(res, { read: (r) => r.status === 200 });
    if (res.json('liked') !== true) lost.add(1);
  }
}
