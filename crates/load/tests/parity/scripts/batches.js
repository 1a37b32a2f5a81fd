import http from 'k6/http';
const url = __ENV.URL;
export const options = { batch: 1 };
export default function () {
  const list = http.batch([`${url}/1`, ['POST', `${url}/2`, 'two'], { method: 'PUT', url: `${url}/3`, body: { a: 'b' }, params: { headers: { X: 'y' } } }]);
  console.log(JSON.stringify(list.map((r) => r.status)));
  const map = http.batch({ only: { method: 'GET', url: `${url}/only` } });
  console.log(Object.keys(map).sort().join());
}
