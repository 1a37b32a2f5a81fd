// One kind of work at the highest rate of the server; WORK is its name.
import http from 'k6/http';
import exec from 'k6/execution';
import { check, fail } from 'k6';

export const options = { vus: 64, duration: __ENV.DURATION || '3s' };

// Each kind of work checks its responses; here only that a wrong log-in may be refused.
http.setResponseCallback(http.expectedStatuses({ min: 200, max: 399 }, 429));

const base = __ENV.BASE_URL || 'http://127.0.0.1:8080';
const work = __ENV.WORK;
const json = { 'Content-Type': 'application/json' };

function token(n) {
  const nickname = `user-${String(n).padStart(4, '0')}`;
  const body = JSON.stringify({ nickname, password: 'madang-seed' });
  const res = http.post(`${base}/v1/auth/user/login`, body, { headers: json });
  if (res.status !== 200) fail(`log-in of ${nickname}: ${res.status} ${res.body}`);
  return res.json('token');
}

export function setup() {
  const res = http.get(`${base}/v1/tracks/4`);
  if (res.status !== 200) fail(`the track: ${res.status}`);
  const writes = ['like', 'schedule', 'article', 'upload'].includes(work);
  const tokens = [];
  for (let n = 1; writes && n <= 64; n++) tokens.push(token(n));
  return { etag: res.headers.Etag, tokens };
}

// Unique to an iteration.
const count = () => exec.vu.iterationInInstance * 64 + exec.vu.idInInstance;

function get(path, status, headers = {}) {
  const res = http.get(`${base}${path}`, { headers });
  check(res, { answered: (r) => r.status === status });
}

function send(method, path, body, token, status) {
  const headers = { ...json, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  const res = http.request(method, `${base}${path}`, JSON.stringify(body), { headers });
  check(res, { answered: (r) => r.status === status });
}

// Twenty points, unique to a track.
function path(n) {
  const points = [];
  for (let at = 0; at < 20; at++) points.push([37.5 + n / 1e7 + at / 1e4, 126.9 + (n % 997) / 1e4 + at / 1e4]);
  return points;
}

const works = {
  track: () => get('/v1/tracks/4', 200),
  known: ({ etag }) => get('/v1/tracks/4', 304, { 'If-None-Match': etag }),
  tracks: () => get('/v1/tracks?limit=20', 200),
  near: () => get(`/v1/tracks?near=37.${5000 + (count() % 997)},127.0`, 200),
  post: () => get(`/v1/posts/${1 + (count() % 400) * 50}`, 200),
  posts: () => get('/v1/posts?limit=20', 200),
  markets: () => get('/v1/markets?q=%EC%8B%9C%EC%9E%A5', 200),
  // The first few are hashed; the refusal of all others is measured.
  wrong: () => send('POST', '/v1/auth/user/login', { nickname: 'user-0001', password: 'wrong-wrong' }, null, 429),
  like: ({ tokens }) => send('PUT', `/v1/articles/${1 + (exec.vu.iterationInInstance % 5000)}/like`, {}, tokens[exec.vu.idInInstance - 1], 200),
  schedule: ({ tokens }) => send('POST', '/v1/schedules', { title: 'Market day', locationId: 1, startAt: '2027-05-01T09:00:00+09:00', endAt: '2027-05-01T10:00:00+09:00' }, tokens[exec.vu.idInInstance - 1], 201),
  article: ({ tokens }) => send('POST', '/v1/articles', { title: `No. ${count()}`, content: 'What there is to say.' }, tokens[exec.vu.idInInstance - 1], 201),
  upload: ({ tokens }) => send('POST', '/v1/tracks', { name: `No. ${count()}`, segments: [path(count())] }, tokens[exec.vu.idInInstance - 1], 201),
};

export default function (data) {
  works[work](data);
}
