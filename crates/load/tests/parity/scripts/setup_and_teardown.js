import http from 'k6/http';
import { check } from 'k6';
const url = __ENV.URL;
export const options = { iterations: 2 };
export function setup() {
  http.get(`${url}/setup`);
  return { token: 'abc', list: [1, { a: null }], missing: undefined, deep: { also: undefined } };
}
export default function (data) {
  check(data, { token: (d) => d.token === 'abc', list: (d) => d.list[1].a === null });
  console.log(`${data.missing} ${data.deep.also} ${data.none}`);
  data.token = 'changed';
}
export function teardown(data) {
  http.get(`${url}/teardown`);
  console.log(JSON.stringify([data.token, data.list]));
}
