import http from 'k6/http';
const url = __ENV.URL;
export default function () {
  const res = http.get(`${url}/json`);
  console.log(JSON.stringify([res.status, res.status_text, res.proto, res.headers['Content-Type'], res.headers['X-Custom'], res.error, res.error_code]));
  console.log(JSON.stringify([res.body.length, typeof res.timings.duration, Object.keys(res.timings).sort()]));
  console.log(JSON.stringify([res.request.method, res.request.url.replace(url, ''), res.request.body, Object.keys(res.request.headers)]));
  const missing = http.get(`${url}/status/404`);
  console.log(JSON.stringify([missing.status, missing.status_text, missing.body, missing.error, missing.error_code]));
  const none = http.get(`${url}/json`, { responseType: 'none' });
  console.log(JSON.stringify([none.body, none.status]));
  const binary = http.get(`${url}/json`, { responseType: 'binary' });
  console.log(JSON.stringify([binary.body instanceof ArrayBuffer, binary.body.byteLength]));
}
