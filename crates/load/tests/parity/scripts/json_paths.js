import http from 'k6/http';
const url = __ENV.URL;
export default function () {
  const res = http.get(`${url}/json`);
  for (const path of ['a', 'a.b', 'a.b.#', 'a.b.0', 'a.b.2.c', 'a.b.#.c', 'text', 'none', 'yes', 'number', 'nothing', 'a.nothing.x', 'a.b.9', 'a.b.-1', '']) {
    console.log(`${path}: ${JSON.stringify(res.json(path))}`);
  }
  console.log(JSON.stringify(Object.keys(res.json()).sort()));
  const twice = http.get(`${url}/json/twice`);
  for (const path of ['a', 'b', 'b.#.k', 'b.#(k==2)', 'b.#(k==3).k', 'b.0', undefined, null, 5, true]) {
    console.log(`${path}: ${JSON.stringify(twice.json(path))}`);
  }
  console.log(`whole: ${twice.json().a}`);
  const html = http.get(`${url}/html`);
  console.log(`of html: ${html.json('a')}`);
  console.log(`of html: ${html.json(undefined)}`);
  try {
    html.json();
  } catch (error) {
    console.log('json() of html throws');
  }
}
