// Virtual users without a pause: the server is busy all the time, the generator hardly ever.
import http from 'k6/http';
import { check } from 'k6';

// When no experiment says how many users, and for how long.
export const options = { vus: 4, duration: '4s' };

export default function () {
  const res = http.get(`${__ENV.BASE_URL || 'http://127.0.0.1:8080'}/`, { tags: { name: 'hash' } });
  check(res, { 'a hash': (r) => r.status === 200 && r.body.length === 64 });
}
