import { check } from 'k6';
export const options = { thresholds: { checks: ['rate>0.9'] } };
export default function () { check(1, { no: false }); }
export function handleSummary(data) {
  console.log(data.metrics.checks.values.fails);
  delete data.metrics.iterations;
  throw new Error('in the summary');
}
