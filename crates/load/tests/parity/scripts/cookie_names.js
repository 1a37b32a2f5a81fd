// Names and values that no server could set.
import http from 'k6/http';

export default function () {
  for (const [name, value] of [
    ['a b', 'x y'], ['tab\tname', 'v'], ['new\nline', 'v'], ['semi;colon', 'v'], ['eq=ual', 'v'], ['한', '글'], ['', 'empty'],
    ['q"uote', 'v"w'], ['com,ma', 'a,b'], ['ok', 'semi;colon'], ['back', 'a\\b'], ['nl', 'a\nb'],
  ]) {
    const jar = new http.CookieJar();
    console.log(JSON.stringify(name), jar.set(__ENV.URL, name, value), JSON.stringify(jar.cookiesForURL(__ENV.URL)));
    const response = http.get(`${__ENV.URL}/cookies`, { jar, cookies: { ok: { 'sp ace': 'v w' }, back: { 'a;b': 'c' } }[name] });
    console.log(JSON.stringify(response.request.headers.Cookie), response.error_code);
  }
}
