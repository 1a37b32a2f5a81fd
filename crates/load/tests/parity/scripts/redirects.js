import http from 'k6/http';
const url = __ENV.URL;
export default function () {
  const all = http.get(`${url}/redirect/3`);
  console.log(`${all.status} ${all.url.replace(url, '')} ${all.body}`);
  const none = http.get(`${url}/redirect/3`, { redirects: 0 });
  console.log(`${none.status} ${none.url.replace(url, '')}`);
  const some = http.get(`${url}/redirect/5`, { redirects: 2 });
  console.log(`${some.status} ${some.url.replace(url, '')}`);
  const post = http.post(`${url}/redirect/1`, 'body', { headers: { 'Content-Type': 'text/plain' } });
  console.log(`${post.status} ${post.request.method}`);
}
