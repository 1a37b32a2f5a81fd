import http from 'k6/http';
import { Rate } from 'k6/metrics';
import * as httpx from 'https://jslib.k6.io/httpx/0.1.0/index.js';

const { Httpx, Get, Post, Request, Delete } = httpx;
const failed = new Rate('own_failed');

// One after the other.
export const options = { batch: 1 };

export default async function () {
  console.log(Object.keys(httpx).sort().join());
  const session = new Httpx({ baseURL: __ENV.URL, headers: { 'X-Shared': 'one' }, tags: { shared: 'tag' }, timeout: 20000, errorMetric: failed });
  console.log(JSON.stringify([session.baseURL === __ENV.URL, session.k6params, session.lastRequest, session.lastRequestChainDuration]));
  const shown = (response) => console.log(response.status, response.request.method, response.url.replace(__ENV.URL, ''), JSON.stringify(Object.entries(response.request.headers).sort()), response.request.body);
  shown(session.get('/a'));
  console.log(typeof session.lastRequestChainDuration, session.lastRequest.responseObject.status);
  shown(session.get('/b', null, { headers: { 'X-Own': 'two', 'X-Shared': 'three' }, tags: { own: 'x' } }));
  shown(session.post('/c', { a: 1 }));
  shown(session.put('/d', 'text'));
  shown(session.patch('/e', JSON.stringify({ a: 1 }), { headers: { 'Content-Type': 'application/json' } }));
  shown(session.delete('/f', null));
  shown(session.options('/g'));
  shown(session.head('/h'));
  shown(session.get(`${__ENV.URL}/absolute`));
  shown(session.get(http.url`${__ENV.URL}/named/${5}`));
  shown(session.get('/status/500'));
  shown(session.get('/status/404', null, { expect: (response) => response.status === 404 }));
  session.addHeader('X-Added', 'yes');
  session.addHeaders({ 'X-More': '1', 'X-Less': '0' });
  session.clearHeader('X-Less');
  session.addTag('added', '1');
  session.addTags({ more: '2', less: '3' });
  session.clearTag('less');
  console.log(JSON.stringify(session.k6params));
  shown(session.request('GET', '/i'));
  shown(await session.asyncRequest('GET', '/j'));
  shown(await session.asyncPost('/k', { b: 2 }));
  shown(await session.asyncGet('/l', null, { headers: { 'X-Later': '1' } }));
  const get = new Get('/m', { headers: { 'X-Get': '1' }, body: 'none' });
  get.addHeader('X-Chained', '2').addTag('chained', '3');
  console.log(JSON.stringify(get), get instanceof Request, JSON.stringify(new Post('/n', { body: 'b' })), JSON.stringify(new Request('PUT', http.url`${'http://host'}/o/${1}`)), JSON.stringify(new Delete('/x')));
  const batch = session.batch([new Get('/p'), new Post('/q', { body: { c: 3 } }), ['GET', '/r', null, { tags: { one: 'two' } }], ['POST', '/s', 'body'], 'ignored'], { headers: { 'X-Batch': 'all' } });
  batch.forEach(shown);
  session.setBaseUrl(`${__ENV.URL}/base`);
  shown(session.execute(new Post('/t', { body: 'executed' })));
  for (const call of [() => session.request('GET'), () => session.request('NO', '/'), () => session.asyncRequest('GET'), () => session.get(), () => session.get(undefined, null)]) {
    try { console.log(typeof call()); } catch (error) { console.log(error.name === 'TypeError' ? error.name : error.message); }
  }
  const plain = new Httpx();
  console.log(JSON.stringify([plain.baseURL, plain.k6params, plain.errorMetric, plain.errorMetricCondition({ status: 399 }), plain.errorMetricCondition({ status: 400 })]));
  const given = { baseURL: 'x', redirects: 0 };
  console.log(JSON.stringify([new Httpx(given).k6params, given]));
}
