// What `--summary-export` writes is what `handleSummary()` leaves of its argument.
import { check, group } from 'k6';
import { Counter, Rate } from 'k6/metrics';

export const options = { iterations: 1, thresholds: { own_rate: ['rate<0.1', 'rate>0.1'] } };
const [one, other, rate] = [new Counter('own_one'), new Counter('own_other'), new Rate('own_rate')];

export const setup = () => ({ given: 1 });
export default function () {
  one.add(1);
  other.add(2);
  rate.add(true);
  check(1, { stays: true, goes: true });
  group('inner', () => check(1, { 'of inner': true }));
}

export function handleSummary(data) {
  for (const name of Object.keys(data.metrics)) {
    if (!name.startsWith('own_') || name === 'own_other') delete data.metrics[name];
  }
  data.metrics.own_one.values.count = 7;
  data.metrics.own_new = { type: 'counter', contains: 'default', values: { count: 3, rate: 0 } };
  data.root_group.checks = data.root_group.checks.filter((found) => found.name === 'stays');
  data.setup_data.given = 2;
  return { stdout: '' };
}
