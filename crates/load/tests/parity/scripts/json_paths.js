import http from 'k6/http';
const url = __ENV.URL;
export default function () {
  const res = http.get(`${url}/json`);
  for (const path of ['a', 'a.b', 'a.b.#', 'a.b.0', 'a.b.2.c', 'a.b.#.c', 'text', 'none', 'yes', 'number', 'nothing', 'a.nothing.x', 'a.b.9', 'a.b.-1', '']) {
    console.log(`${path}: ${JSON.stringify(res.json(path))}`);
  }
  console.log(JSON.stringify(Object.keys(res.json()).sort()));
  const html = http.get(`${url}/html`);
  console.log(`of html: ${html.json('a')}`);
  try {
    html.json();
  } catch (error) {
    console.log('json() of html throws');
  }
}
