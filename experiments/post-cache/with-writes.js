// The same readers, and beside them writers at a constant rate who look at what they did at once.
import http from 'k6/http';
import { check, fail } from 'k6';
import exec from 'k6/execution';
import { Counter } from 'k6/metrics';
import { base, categories, lifeMs, place, query, visit } from './posts.js';

const users = 64;
const duration = __ENV.DURATION || '20s';

const created = new Counter('created');
const removed = new Counter('removed');
const writes = new Counter('writes');
// Reads that showed a state older than one that was acknowledged to the same client before.
const staleReads = new Counter('stale_reads');
// Posts whose removal was not acknowledged in time: readers may see them for longer and be right.
const overdue = new Counter('overdue');

// After a removal 404 is the right answer.
http.setResponseCallback(http.expectedStatuses(200, 201, 204, 404));

export const options = {
  scenarios: {
    readers: { executor: 'constant-vus', vus: 50, duration, exec: 'read' },
    // Three writes an iteration: 102 a second.
    writers: {
      executor: 'constant-arrival-rate', rate: 34, timeUnit: '1s', duration,
      preAllocatedVUs: 32, maxVUs: 200, exec: 'write',
    },
  },
  thresholds: {
    'http_req_duration{scenario:readers}': ['max>=0'],
    'http_req_duration{scenario:writers}': ['max>=0'],
    'http_reqs{scenario:readers}': ['count>=0'],
  },
};

export function setup() {
  const tokens = [];
  for (let n = 1; n <= users; n++) {
    const body = JSON.stringify({ nickname: `user-${String(n).padStart(4, '0')}`, password: 'madang-seed' });
    const res = http.post(`${base}/v1/auth/user/login`, body, {
      headers: { 'Content-Type': 'application/json' }, tags: { name: 'login' },
    });
    if (res.status !== 200) fail(`log-in of user ${n}: ${res.status} ${res.body}`);
    tokens.push(res.json('token'));
  }
  return tokens;
}

export const read = visit;

export function write(tokens) {
  const headers = {
    'Content-Type': 'application/json',
    Authorization: `Bearer ${tokens[exec.scenario.iterationInTest % users]}`,
  };
  const [state, city, town] = place();
  const category = categories[exec.scenario.iterationInTest % categories.length];
  const post = {
    title: '자전거 팝니다', content: '상태 좋아요.', itemName: '자전거', price: 50000, stock: 1,
    category, state, city, town,
  };
  const begun = Date.now();
  const made = http.post(`${base}/v1/posts`, JSON.stringify(post), { headers, tags: { name: 'create' } });
  // Without an answer it may have been made all the same, and stay.
  if (!check(made, { 'created': (r) => r.status === 201 })) {
    overdue.add(1);
    return;
  }
  created.add(1);
  writes.add(1);
  const id = made.json('id');
  const area = query({ state, city, town, category, limit: 100 });
  look(id, area, 50000);

  const price = 10000 + (id % 40000);
  const changed = http.patch(`${base}/v1/posts/${id}`, JSON.stringify({ price }), { headers, tags: { name: 'change' } });
  if (check(changed, { 'changed': (r) => r.status === 200 })) {
    writes.add(1);
    look(id, area, price);
  }

  const gone = http.del(`${base}/v1/posts/${id}`, null, { headers, tags: { name: 'remove' } });
  const inTime = Date.now() - begun <= lifeMs;
  if (gone.status !== 204 || !inTime) overdue.add(1);
  if (check(gone, { 'removed': (r) => r.status === 204 })) {
    removed.add(1);
    writes.add(1);
    look(id, area, null);
  }
}

// The very next reads of the post and of its listing must show this price, or nothing when it is null.
function look(id, area, price) {
  const tags = { name: 'look again' };
  const post = http.get(`${base}/v1/posts/${id}`, { tags });
  const list = http.get(`${base}/v1/posts?${area}`, { tags });
  if (!check(post, { 'post answered': (r) => r.status === 200 || r.status === 404 })) return;
  if (!check(list, { 'listing answered': (r) => r.status === 200 })) return;
  const shown = post.status === 404 ? null : post.json('price');
  const listed = list.json('items').find((item) => item.id === id);
  const right = { 'post is as it was left': () => shown === price };
  right['listing is as it was left'] = () => (listed ? listed.price : null) === price;
  if (shown !== price) staleReads.add(1);
  if ((listed ? listed.price : null) !== price) staleReads.add(1);
  check(null, right);
}
