import http from 'k6/http';
const url = __ENV.URL;
http.setResponseCallback(http.expectedStatuses(200, { min: 300, max: 404 }));
export default function () {
  for (const status of [200, 201, 302, 404, 500]) http.get(`${url}/status/${status}`);
  http.get(`${url}/status/500`, { responseCallback: http.expectedStatuses(500) });
  http.get(`${url}/status/500`, { responseCallback: null });
}
