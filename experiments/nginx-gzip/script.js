// A steady stream of requests for one JSON file, from a client that understands gzip.
import http from 'k6/http';
import { check } from 'k6';

export const options = {
  scenarios: {
    readers: {
      executor: 'constant-arrival-rate',
      rate: Number(__ENV.RATE || 1000),
      timeUnit: '1s',
      duration: __ENV.DURATION || '3s',
      preAllocatedVUs: 50,
    },
  },
};

const url = `${__ENV.BASE_URL || 'http://127.0.0.1:8080'}/experiment.schema.json`;
const params = { headers: { 'Accept-Encoding': 'gzip' }, tags: { name: 'file' } };

export default function () {
  const res = http.get(url, params);
  check(res, { 'the whole file': (r) => r.status === 200 && r.body.endsWith('}\n') });
}
