// One kind of request (KIND), at the rate that `madang limit` asks for.
import http from 'k6/http';
import exec from 'k6/execution';
import { check, fail } from 'k6';

const base = __ENV.BASE_URL || 'http://127.0.0.1:8080';
const users = 64;
const posts = 20000;
const json = { 'Content-Type': 'application/json' };

export const options = {
  scenarios: {
    all: {
      executor: 'constant-arrival-rate',
      rate: Number(__ENV.RATE || 100),
      timeUnit: '1s',
      duration: __ENV.DURATION || '5s',
      preAllocatedVUs: Number(__ENV.VUS || 100),
    },
  },
};

function logIn(n) {
  const body = JSON.stringify({ nickname: `user-${String(n).padStart(4, '0')}`, password: 'madang-seed' });
  return http.post(`${base}/v1/auth/user/login`, body, { headers: json });
}

// Each returns whether the answer was the right one.
const kinds = {
  // A page that is in the cache.
  page: () => http.get(`${base}/v1/posts/${1 + (exec.scenario.iterationInTest % 40)}`).status === 200,
  // One that is in no cache: a search from a place where nobody has been.
  search: () => {
    const [lat, lon] = [33 + 5 * Math.random(), 126 + 3 * Math.random()];
    return http.get(`${base}/v1/tracks?near=${lat.toFixed(5)},${lon.toFixed(5)}`).status === 200;
  },
  // A like of a pair of user and article that nobody has sent.
  like: (tokens) => {
    const pair = exec.scenario.iterationInTest;
    const headers = { Authorization: `Bearer ${tokens[pair % users]}` };
    const article = 1 + (Math.floor(pair / users) % posts);
    return http.put(`${base}/v1/articles/${article}/like`, null, { headers }).status === 200;
  },
  'log-in': () => logIn(1 + (exec.scenario.iterationInTest % users)).status === 200,
};
const run = kinds[__ENV.KIND || 'page'];

export function setup() {
  if (__ENV.KIND !== 'like') return [];
  const tokens = [];
  for (let n = 1; n <= users; n++) {
    const res = logIn(n);
    if (res.status !== 200) fail(`log-in: ${res.status} ${res.body}`);
    tokens.push(res.json('token'));
  }
  return tokens;
}

export default function (tokens) {
  check(run(tokens), { 'right answer': (right) => right });
}
