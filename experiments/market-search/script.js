// What people ask of a directory of markets: mostly its first page, searches and one market, now and
// then what is near or what is sold. A few searches are asked by many, as in any directory. MODE=steps is
// the documented first load (50 users started within 1 s, 100 requests each); MODE=users the second
// (a closed model with USERS users).
import http from 'k6/http';
import { check } from 'k6';

const users = Number(__ENV.USERS || 50);
const each = Number(__ENV.REQUESTS || 100);

export const options = __ENV.MODE === 'users'
  ? { scenarios: { users: { executor: 'constant-vus', vus: users, duration: __ENV.DURATION || '10s' } } }
  : { scenarios: { documented: { executor: 'per-vu-iterations', vus: users, iterations: each, maxDuration: '10m' } } };

const base = `${__ENV.BASE_URL || 'http://127.0.0.1:8080'}/v1/markets`;
const searches = ['중앙시장', '시장', '남대문', '강원도', '자갈치', '서울 중구', '전통시장', '전라북도', '5일', '골목시장', '동문', '대구 서문', '수산', '부산 국제', '광장', '역전'];
const regions = ['서울', '부산', '강원도', '전라북도', '제주', '대구'];
const goods = ['수산물', '농산물', '축산물', '의류', '음식점'];

// Fourth power: a few are asked for by many.
const some = (list) => list[Math.floor(Math.pow(Math.random(), 4) * list.length)];
const ask = (name, parameters) => {
  const query = Object.entries(parameters).map(([k, v]) => `${k}=${encodeURIComponent(v)}`).join('&');
  const res = http.get(`${base}?${query}`, { tags: { name } });
  check(res, {
    'status is 200': (r) => r.status === 200,
    'it is a page': (r) => r.body !== null && r.body.startsWith('{"items":['),
  });
};

export default function () {
  const turn = Math.random();
  if (turn < 0.3) {
    ask('first page', {});
  } else if (turn < 0.6) {
    ask('search', { q: some(searches) });
  } else if (turn < 0.7) {
    ask('region and goods', { region: some(regions), goods: some(goods) });
  } else if (turn < 0.75) {
    const near = `${(35 + Math.random() * 3).toFixed(4)},${(126.8 + Math.random() * 2).toFixed(4)}`;
    ask('near', { near });
  } else {
    const id = 1 + Math.floor(Math.pow(Math.random(), 4) * 1388);
    const res = http.get(`${base}/${id}`, { tags: { name: 'market' } });
    check(res, {
      'status is 200': (r) => r.status === 200,
      'it is the market': (r) => r.body !== null && r.body.startsWith(`{"id":${id},`),
    });
  }
}
