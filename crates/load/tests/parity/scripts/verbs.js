import http from 'k6/http';
import { check } from 'k6';
const url = __ENV.URL;
export default function () {
  const answers = [
    http.get(`${url}/get?a=1&b=2`),
    http.head(`${url}/head`),
    http.post(`${url}/post`, 'text'),
    http.put(`${url}/put`, JSON.stringify({ a: 1 }), { headers: { 'content-type': 'application/json', 'X-Mixed-case': 'v' } }),
    http.patch(`${url}/patch`, null),
    http.del(`${url}/del`, 'with a body'),
    http.options(`${url}/options`),
    http.request('GET', `${url}/request`),
    http.post(`${url}/empty`),
    http.post(`${url}/empty/text`, ''),
    http.put(`${url}/empty/form`, {}),
    http.patch(`${url}/empty/buffer`, new ArrayBuffer(0)),
    http.del(`${url}/empty/del`, ''),
    http.options(`${url}/empty/options`, {}),
    ...['GET', 'TRACE', 'PROPFIND', 'SEARCH', 'OTHER'].map((method) => http.request(method, `${url}/empty/request`, '')),
    http.get(`${url}/host`, { headers: { Host: 'other.example:81' } }),
    http.get(`${url}/no-host`, { headers: { Host: 'http://other.example' } }),
  ];
  check(answers, { 'all 200': (all) => all.every((r) => r.status === 200) });
}
