// The same rate for both, well below what either can take: then response times can be compared.
import http from 'k6/http';
import { check } from 'k6';

export const options = {
  scenarios: {
    readers: {
      executor: 'constant-arrival-rate',
      rate: 200,
      timeUnit: '1s',
      duration: '10s',
      preAllocatedVUs: 50,
    },
  },
};

export default function () {
  const res = http.get(`${__ENV.BASE_URL}/`, { tags: { name: 'start page' } });
  check(res, { 'status is 200': (r) => r.status === 200 });
}
