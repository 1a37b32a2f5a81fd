import http from 'k6/http';
import { check, group } from 'k6';

export const options = { iterations: 3, thresholds: { http_reqs: ['count<1'], iterations: ['count>1'] } };

export function setup() {
  group('before', () => {
    check(http.post(`${__ENV.URL}/form`, { a: null, b: undefined, c: [1, null], d: 'x' }), { ok: (r) => r.status === 200 });
  });
  throw new Error('not today');
}

export default function () {
  console.log('never');
}

export function teardown() {
  console.log('never');
}
