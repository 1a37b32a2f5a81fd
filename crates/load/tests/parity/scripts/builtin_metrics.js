import http from 'k6/http';
import exec from 'k6/execution';
import { check, group } from 'k6';
import { Counter, Rate, Trend } from 'k6/metrics';

const checks = new Rate('checks'), failed = new Rate('http_req_failed'), requests = new Counter('http_reqs');
const duration = new Trend('http_req_duration', true), iterations = new Counter('iterations');
const refused = [['data_sent', Counter], ['http_req_duration', Trend], ['checks', Counter]].filter(([name, Metric]) => {
  try { return !new Metric(name); } catch (error) { return true; }
});
const all = {
  name: 'N', url: 'U', method: 'M', proto: 'P', status: 'S', error_code: 'E', error: 'ER', expected_response: 'X', tls_version: 'T',
  scenario: 'SC', group: 'G', check: 'C', own: 'o',
};
export const options = {
  thresholds: {
    'checks{check:named}': ['rate==1'], 'checks{check:mine}': ['rate==0.5'], 'checks{check:other}': ['rate==0'],
    'http_reqs{status:200}': ['count==3'], 'http_reqs{method:GET}': ['count==4'], 'http_reqs{name:N}': ['count==3'],
    'http_reqs{expected_response:true}': ['count==3'], 'http_reqs{error_code:E}': ['count==1'], 'http_reqs{own:o}': ['count==3'],
    'http_reqs{name:vu}': ['count==1'], 'http_reqs{error_code:1212}': ['count==1'],
  },
};

export default function () {
  console.log(refused.map(([name]) => name).join());
  check(1, { named: true }, { check: 'other' });
  checks.add(1, { check: 'mine' });
  checks.add(0, { check: 'mine' });
  checks.add(true);
  checks.add(0.5, { check: 'half' });
  group('inner', () => checks.add(1, { check: 'in it' }));
  failed.add(1);
  duration.add(5);
  iterations.add(2);
  requests.add(2);
  http.get(`${__ENV.URL}/a`, { tags: all });
  http.get('http://127.0.0.1:1/', { tags: all });
  exec.vu.metrics.tags.name = 'vu';
  http.get(http.url`${__ENV.URL}/b/${1}`);
  http.get(http.url`${__ENV.URL}/c/${1}`, { tags: all });
}
