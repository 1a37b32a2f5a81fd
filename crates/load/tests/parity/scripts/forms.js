import http from 'k6/http';
const url = __ENV.URL;
export default function () {
  http.post(`${url}/form`, { name: 'a b', list: ['x', 'y'], sign: '&=+', umlaut: 'ä', number: 5 });
  // With more than one part, k6 writes them in any order.
  http.post(`${url}/file`, { file: http.file('content', 'a.txt', 'text/plain') });
  http.post(`${url}/buffer`, new Uint8Array([104, 105]).buffer);
}
