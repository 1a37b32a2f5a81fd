import http from 'k6/http';
import { check } from 'k6';
const url = __ENV.URL;
const told = (name, ask) => {
  let what;
  try {
    const res = ask();
    what = typeof res === 'boolean' ? res : [res.status, res.error_code, res.error];
  } catch (error) {
    what = 'throws';
  }
  console.log(`${name}: ${JSON.stringify(what)}`);
};
export default function () {
  for (const auth of ['bearer', 'other', '', 5]) told(`auth ${auth}`, () => http.get(`${url}/auth`, { auth }));
  for (const sets of ['ab', '', 5, true, [1, 0], null, undefined]) told(`check ${sets}`, () => check(1, sets));
  told('check without conditions', () => check(1));
  for (const tags of [{ a: {} }, { a: [1] }, 5, 'ab', null]) {
    told(`tags of a check ${JSON.stringify(tags)}`, () => check(1, { holds: true }, tags));
  }
  for (const timeout of [0, -1, NaN, '0s', '-1s', 'x', '', '5', 1e6]) {
    told(`timeout ${timeout}`, () => http.get(`${url}/timeout`, { timeout }));
  }
  for (const responseType of ['x', 5, '', true, 'BINARY']) {
    told(`responseType ${responseType}`, () => http.get(`${url}/type`, { responseType }));
  }
  for (const headers of [5, true, [], '', ['a']]) told(`headers ${headers}`, () => http.get(`${url}/headers`, { headers }));
  for (const tags of [5, true, [], { a: {} }, { a: [1] }]) {
    told(`tags ${JSON.stringify(tags)}`, () => http.get(`${url}/tags`, { tags }));
  }
  for (const compression of ['x', 5, '']) told(`compression ${compression}`, () => http.post(`${url}/coded`, 'a', { compression }));
  for (const odd of [5, true, 'x']) told(`cookies and jar ${odd}`, () => http.get(`${url}/jar`, { jar: odd }));
  for (const cookies of [5, true]) told(`cookies ${cookies}`, () => http.get(`${url}/cookies`, { cookies }));
  const code = (name, ask) => told(name, () => {
    const { status, error_code, error } = ask();
    return { status, error_code, error: error !== '' };
  });
  code('no address', () => http.get());
  code('no method', () => http.request());
  for (const address of [null, undefined, 5, true]) code(`address ${address}`, () => http.get(address));
  for (const body of [5, true]) code(`body ${body}`, () => http.post(`${url}/body`, body));
}
