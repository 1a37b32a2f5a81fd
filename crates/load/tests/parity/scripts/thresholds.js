import http from 'k6/http';
import { Counter, Rate, Gauge, Trend } from 'k6/metrics';
const counter = new Counter('my_counter');
const rate = new Rate('my_rate');
const gauge = new Gauge('my_gauge');
const trend = new Trend('my_trend');
export const options = {
  thresholds: {
    my_counter: ['count>=3', 'count<3'],
    my_rate: ['rate>0.5'],
    my_gauge: ['value==7'],
    my_trend: ['avg<10', 'p(95)<100', 'max<1'],
    'my_counter{kind:a}': ['count==1'],
    'http_reqs{name:tagged}': ['count==1'],
    checks: ['rate>0.9'],
  },
};
export default function () {
  counter.add(1, { kind: 'a' });
  counter.add(2);
  rate.add(true);
  rate.add(false);
  gauge.add(3);
  gauge.add(7);
  trend.add(5);
  http.get(`${__ENV.URL}/x`, { tags: { name: 'tagged' } });
}
