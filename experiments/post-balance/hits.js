// Readers of a small set of posts and first pages, which are in the caches soon after the start: what is measured then is
// the cost of a hit alone.
import http from 'k6/http';
import { check } from 'k6';
import { base, places, query } from '../post-cache/posts.js';

export const options = { vus: 50, duration: '20s' };

// The first posts of the seed that were not removed.
const ids = [];
for (let id = 1; ids.length < 200; id++) if (id % 50 !== 0) ids.push(id);

// The newest of each municipality, and of all.
const pages = ['', ...places.map(([state, city]) => `?${query({ state, city })}`)];

function any(list) {
  return list[Math.floor(Math.random() * list.length)];
}

function show(path, name) {
  const res = http.get(`${base}${path}`, { tags: { name } });
  check(res, { 'answered 200': (r) => r.status === 200 });
}

export default function () {
  show(`/v1/posts${any(pages)}`, 'listing');
  show(`/v1/posts/${any(ids)}`, 'post');
  show(`/v1/posts/${any(ids)}`, 'post');
}
