import http from 'k6/http';
import { check, group } from 'k6';
import exec from 'k6/execution';
import { Counter, Gauge, Rate, Trend } from 'k6/metrics';
const url = __ENV.URL;
const [counter, trend] = [new Counter('own_counter'), new Trend('own_trend', true)];
const [rate, gauge] = [new Rate('own_rate'), new Gauge('own_gauge')];
export const options = {
  thresholds: {
    http_reqs: ['count>1', { threshold: 'rate>=0', abortOnFail: true }],
    'http_reqs{status:200}': ['count>0'],
    own_trend: [{ threshold: 'max<2e21', abortOnFail: true, delayAbortEval: '90s' }],
  },
  scenarios: { one: { executor: 'per-vu-iterations', vus: 1, iterations: 2, exec: 'one' } },
};
export function setup() {
  http.get(`${url}/status/200`);
}
export function one() {
  exec.vu.metrics.metadata.trace = 'a&b';
  const found = http.get(`${url}/status/200`, { tags: { own: 'q"<>&é, ' } });
  check(found, { 'is 200': (r) => r.status === 200, 'is 500': (r) => r.status === 500 });
  delete exec.vu.metrics.metadata.trace;
  group('outer', () => {
    http.get(`${url}/redirect/1`);
    group('inner', () => http.get(`${url}/status/404`, { tags: { name: 'not there' } }));
  });
  http.get('http://127.0.0.1:1/', { responseCallback: null });
  for (const value of [0, 1, 2.5, 123456.789, 1234567, 1e21, 0.0001, 1.5e-7, -3]) trend.add(value);
  counter.add(1, { own: ' tag' });
  rate.add(true);
  gauge.add(3);
}
export function teardown() {
  counter.add(7);
}
