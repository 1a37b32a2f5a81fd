import http from 'k6/http';
const url = __ENV.URL;
export default function () {
  for (const path of ['', '/', '/a b', '/%2f%41', '/ä?ö=ü', '/a?b=c d', '/a?b=%20&c=+', '/a#fragment', '/a;b=c', "/it's(a)", '/a|b', '/a"b', '/a\\b', '/[x]', '/a//b/../c', '?q=1', '/a?b=c?d', '/~a!$&*', '/^`{}']) {
    const res = http.get(url + path);
    console.log(`${path} ${res.url.replace(url, '')} ${res.status} ${res.error_code}`);
  }
  http.get(http.url`${url}/users/${7}/items/${'x'}`);
}
