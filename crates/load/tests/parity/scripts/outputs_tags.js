import http from 'k6/http';
import { check } from 'k6';
export const options = { systemTags: ['status', 'ip', 'vu', 'check'], tags: { run: 'r' } };
export default function () {
  check(http.get(`${__ENV.URL}/status/200`), { 'is 200': (r) => r.status === 200 });
}
