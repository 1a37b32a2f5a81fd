// The same rate for both, well below what either can take: then response times can be compared.
import http from 'k6/http';
import { check } from 'k6';

// A check that only correct responses of your service pass: an error page with status 200 is fast, too.
const RIGHT = /^[0-9a-f]{64}$/;

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
  check(res, {
    'status is 200': (r) => r.status === 200,
    'the answer is right': (r) => RIGHT.test(r.body),
  });
}
