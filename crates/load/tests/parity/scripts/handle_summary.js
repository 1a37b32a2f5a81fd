import http from 'k6/http';
import { check, group, sleep } from 'k6';
import { Counter, Gauge, Rate, Trend } from 'k6/metrics';

export const options = {
  iterations: 2,
  summaryTrendStats: ['avg', 'min', 'p(99.9)', 'count'],
  thresholds: {
    own_counter: ['count>1', 'count>100'], 'own_counter{tag:a}': ['count==2'], own_trend: [{ threshold: 'max<100' }],
    http_req_failed: ['rate<0.9'], checks: ['rate>0.1'], own_never: ['count<1'],
  },
};
const counter = new Counter('own_counter'), gauge = new Gauge('own_gauge'), rate = new Rate('own_rate');
const trend = new Trend('own_trend'), time = new Trend('own_time', true), never = new Counter('own_never'), empty = new Trend('own_empty');

export const setup = () => ({ given: [1, { a: null }] });
export function teardown() { check(1, { 'in teardown': true }); }
export default function () {
  check(http.get(`${__ENV.URL}/status/200`), { 'is 200': (response) => response.status === 200, odd: __ITER % 2 === 1 });
  http.get(`${__ENV.URL}/status/404`);
  group('outer', () => { check(1, { one: true }); group('inner', () => { check(1, { two: false }); }); group('bare', () => {}); });
  counter.add(2, { tag: 'a' });
  counter.add(3);
  gauge.add(4 - __ITER);
  rate.add(__ITER === 0);
  trend.add(__ITER + 1);
  time.add(10);
}

/** What is measured in time is different every time. */
const settled = (name, values) => {
  const timed = /^(http_req_(duration|blocked|connecting|sending|tls|waiting|receiving)|iteration_duration|group_duration)/.test(name);
  const bytes = /^data_/.test(name);
  return Object.entries(values).sort().map(([key, value]) => [key, timed && key !== 'count' || bytes || key === 'rate' && 'count' in values ? typeof value : value]);
};

/** With the names in the order of the alphabet. */
const text = (value) => JSON.stringify(value, (_, inner) =>
  (inner && inner.constructor === Object ? Object.fromEntries(Object.entries(inner).sort()) : inner));

export function handleSummary(data) {
  console.log(Object.keys(data).sort().join());
  console.log(text(data.root_group));
  console.log(JSON.stringify(Object.entries(data.options).sort()));
  console.log(JSON.stringify(Object.entries(data.state).map(([key, value]) => [key, typeof value]).sort()), data.state.testRunDurationMs > 0);
  console.log(JSON.stringify(data.setup_data));
  for (const [name, metric] of Object.entries(data.metrics).sort()) {
    if (/^vus/.test(name)) continue;
    console.log(name, JSON.stringify([metric.type, metric.contains, settled(name, metric.values), metric.thresholds && Object.entries(metric.thresholds).sort(), Object.keys(metric).sort()]));
  }
  console.log(typeof http.get, __ENV.URL.length > 0, typeof __VU);
  try { http.get(`${__ENV.URL}/late`); console.log('sent'); } catch (error) { console.log('not sent'); }
  return {
    [`${__ENV.OUT}/text.txt`]: 'text 한글\n',
    [`${__ENV.OUT}/json.json`]: JSON.stringify(data.root_group.groups.map((inner) => inner.name)),
    [`${__ENV.OUT}/bytes.bin`]: new Uint8Array([65, 0, 66]).buffer,
    [`${__ENV.OUT}/empty`]: '',
    stdout: '',
  };
}
