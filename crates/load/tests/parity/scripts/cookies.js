import http from 'k6/http';
const url = __ENV.URL;
export const options = { iterations: 2 };
export default function () {
  console.log(http.get(`${url}/cookies/none`).body);
  const set = http.get(`${url}/cookies/set`);
  console.log(JSON.stringify([set.cookies.a, set.cookies.b]));
  console.log(http.get(`${url}/cookies/sub`).body);
  console.log(http.get(`${url}/elsewhere`).status);
  console.log(http.get(`${url}/cookies/own`, { cookies: { b: 'mine' } }).body);
  const jar = http.cookieJar();
  jar.set(`${url}/cookies`, 'jar', 'x', { path: '/cookies' });
  console.log(http.get(`${url}/cookies/replaced`, { cookies: { a: { value: 'new', replace: true } } }).body);
  const kept = jar.cookiesForURL(`${url}/cookies`);
  console.log(Object.keys(kept).sort().map((name) => `${name}=${kept[name]}`).join());
  console.log(http.get(`${url}/cookies/jar`).body);
  // An address without a scheme has no cookies.
  console.log(jar.set('www.example', 'a', '1'), JSON.stringify(jar.cookiesForURL('www.example')));
  console.log(jar.clear('www.example'), jar.delete('www.example', 'a'));
}
