import http from 'k6/http';
const url = __ENV.URL;
const host = url.replace('http://', '');
const sorted = (cookies) => JSON.stringify(Object.keys(cookies).sort().map((name) => [name, cookies[name]]));
export default function () {
  for (const user of ['a@', 'a:@', 'a:b@', ':b@', '@']) http.get(`http://${user}${host}/user`);
  const blanks = http.get(`${url}/blanks`, { headers: { 'X-A': '  a b \t ', 'X-B': ' ', 'User-Agent': ' k6\t' } });
  console.log(JSON.stringify([blanks.request.headers['X-A'], blanks.request.headers['X-B']]));
  const jar = http.cookieJar();
  jar.set(url, 'one', '1');
  jar.set(url, 'two', 'a b');
  for (const params of [
    {},
    // One at a time: k6 sends several in no order.
    { cookies: { own: 'x' } },
    { cookies: { one: 'over' } },
    { cookies: { two: { value: 'new', replace: true } } },
    { headers: { Cookie: ' own=y; "bad"=1; quoted="z" ' } },
    { redirects: 5, headers: { 'X-A': 'a' } },
  ]) {
    const { request } = http.get(`${url}/redirect/1`, params);
    console.log(sorted(request.cookies), JSON.stringify(request.headers.Cookie));
  }
  http.get(`${url}/cookies/set`);
  console.log(sorted(http.get(`${url}/cookies/none`).request.cookies));
  jar.clear(url);
}
