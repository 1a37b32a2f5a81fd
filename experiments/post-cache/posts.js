// What both loads have in common: who reads what. The rows are those of `madang seed --posts`.
import http from 'k6/http';
import { check } from 'k6';
import { Counter } from 'k6/metrics';

export const base = __ENV.BASE_URL || 'http://127.0.0.1:8080';
export const posts = Number(__ENV.POSTS || '20000');

// Every seeded post whose number can be divided by 50 was removed: none of them may be in a listing.
const removedListed = new Counter('removed_listed');
// Listed posts of the writers that were removed longer than `freshMs` ago, if writers keep to `lifeMs`.
const staleForOthers = new Counter('stale_for_others');
// How long others may be shown what was, and how long a post of a writer is there. Writers count those
// that were there longer.
const freshMs = 2000;
export const lifeMs = 3000;

// Municipalities with a town and their population in 10,000, as the seed has them.
export const places = [
  ['경기도', '화성시', '동탄동', 94],
  ['경기도', '남양주시', '다산동', 73],
  ['서울특별시', '송파구', '잠실동', 66],
  ['인천광역시', '서구', '청라동', 62],
  ['서울특별시', '강서구', '화곡동', 57],
  ['대구광역시', '달서구', '상인동', 53],
  ['서울특별시', '강남구', '역삼동', 53],
  ['경상남도', '김해시', '장유동', 53],
  ['제주특별자치도', '제주시', '연동', 49],
  ['경기도', '성남시 분당구', '정자동', 48],
  ['대전광역시', '서구', '둔산동', 46],
  ['광주광역시', '북구', '용봉동', 42],
  ['부산광역시', '해운대구', '우동', 38],
  ['서울특별시', '마포구', '망원동', 37],
  ['강원도', '원주시', '무실동', 36],
];
const people = places.reduce((sum, place) => sum + place[3], 0);
export const categories = [
  'digital', 'clothing', 'kids', 'furniture', 'appliances', 'sports',
  'hobbies', 'books', 'beauty', 'etc', 'plants', 'pets',
];

export function place() {
  let at = Math.random() * people;
  return places.find((place) => (at -= place[3]) < 0) || places[0];
}

// Zipf's law with exponent 1: a rank below n, 0 the most popular. Approximately, by inversion of the
// continuous law: rank 0 of 20,000 comes with 7.0 %, where the weights 1/(r + 1) give it 9.5 %.
function rank(n) {
  return Math.min(n - 1, Math.floor(Math.exp(Math.random() * Math.log(n + 1))) - 1);
}

// By the ranks that the seed documents; removed ones are passed over.
export function popularPost() {
  for (;;) {
    const id = 1 + ((rank(posts) * 999999937) % posts);
    if (id % 50 !== 0) return id;
  }
}

export function query(parts) {
  return Object.entries(parts).map(([k, v]) => `${k}=${encodeURIComponent(v)}`).join('&');
}

// Most people look at the newest of their municipality or their town.
function listing() {
  const [state, city, town] = place();
  const level = Math.random();
  const asked = level < 0.1 ? {} : level < 0.3 ? { state }
    : level < 0.7 ? { state, city } : { state, city, town };
  if (Math.random() < 0.5) asked.category = categories[rank(categories.length)];
  const order = Math.random();
  if (order > 0.7) asked.sort = order > 0.9 ? '-price' : 'price';
  return query(asked);
}

function show(path, name) {
  const res = http.get(`${base}${path}`, { tags: { name } });
  check(res, { 'answered 200': (r) => r.status === 200 });
  return res;
}

// Counts what a listing shows and must not.
function inspect(page) {
  for (const item of page.items) {
    if (item.id > posts) {
      if (Date.now() - Date.parse(item.createdAt) > freshMs + lifeMs) staleForOthers.add(1);
    } else if (item.id % 50 === 0) {
      removedListed.add(1);
    }
  }
}

// One visit: a listing, sometimes its second page, sometimes the categories, and two posts.
export function visit() {
  if (Math.random() < 0.1) show('/v1/categories', 'categories');
  const asked = listing();
  const first = show(`/v1/posts?${asked}`, 'listing');
  const page = first.status === 200 ? first.json() : { items: [], nextCursor: null };
  inspect(page);
  if (page.nextCursor && Math.random() < 0.25) {
    const second = show(`/v1/posts?${asked}${asked ? '&' : ''}cursor=${page.nextCursor}`, 'second page');
    if (second.status === 200) inspect(second.json());
  }
  show(`/v1/posts/${popularPost()}`, 'post');
  show(`/v1/posts/${popularPost()}`, 'post');
}
