// Fifty people who look around and write a little, and one client that asks and writes without a pause on
// 32 connections. All come from one address; each has an account.
import http from 'k6/http';
import exec from 'k6/execution';
import { check, fail, sleep } from 'k6';
import { Counter } from 'k6/metrics';

const base = __ENV.BASE_URL || 'http://127.0.0.1:8080';
const duration = __ENV.DURATION || '20s';
const people = 50;

const postsMade = new Counter('posts_made');
const greedyDone = new Counter('greedy_done');
const greedyRefused = new Counter('greedy_refused');
const peopleRefused = new Counter('people_refused');

// To be refused is no failure: it is what the limit is for.
http.setResponseCallback(http.expectedStatuses(200, 201, 429));

export const options = {
  scenarios: {
    // Four requests in two seconds: 120 reads and writes a minute for each of them.
    people: { executor: 'constant-vus', vus: people, duration, exec: 'person' },
    greedy: { executor: 'constant-vus', vus: 32, duration, exec: 'greedy' },
  },
  thresholds: {
    'http_req_duration{scenario:people}': ['max>=0'],
    'http_reqs{scenario:people}': ['count>=0'],
  },
};

export function setup() {
  const tokens = [];
  for (let n = 1; n <= people + 1; n++) {
    const nickname = `user-${String(n).padStart(4, '0')}`;
    const res = http.post(`${base}/v1/auth/user/login`, JSON.stringify({ nickname, password: 'madang-seed' }), {
      headers: { 'Content-Type': 'application/json' },
    });
    if (res.status !== 200) fail(`log-in of ${nickname}: ${res.status} ${res.body}`);
    tokens.push(res.json('token'));
  }
  return tokens;
}

// A page that is not in the cache, as a rule: there are 2,400 of them, and every post that is made ends some.
const categories = ['digital', 'clothing', 'kids', 'furniture', 'appliances', 'sports', 'hobbies', 'books'];
const any = (list) => list[Math.floor(Math.random() * list.length)];

function look(token) {
  const asked = `category=${any(categories)}&sort=${any(['newest', 'price', '-price'])}`;
  return http.get(`${base}/v1/posts?${asked}&limit=${1 + Math.floor(Math.random() * 100)}`, {
    headers: { Authorization: `Bearer ${token}` },
    tags: { name: 'look' },
  });
}

function write(token) {
  const body = {
    title: 'A lamp', content: 'It shines.', itemName: 'lamp', price: 12000, stock: 1, category: 'furniture',
    state: '서울특별시', city: '마포구', town: '망원동',
  };
  const res = http.post(`${base}/v1/posts`, JSON.stringify(body), {
    headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
    tags: { name: 'write' },
  });
  if (res.status === 201) postsMade.add(1);
  return res;
}

const good = { 'answered or refused': (r) => [200, 201, 429].includes(r.status) };

export function person(tokens) {
  const token = tokens[exec.scenario.iterationInTest % people];
  for (const act of [look, look, look, write]) {
    const res = act(token);
    check(res, good);
    if (res.status === 429) peopleRefused.add(1);
    sleep(0.5);
  }
}

export function greedy(tokens) {
  for (const act of [look, write]) {
    const res = act(tokens[people]);
    check(res, good);
    if (res.status === 429) greedyRefused.add(1);
    else greedyDone.add(1);
  }
}
