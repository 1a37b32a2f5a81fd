// HTTP_PROXY and HTTPS_PROXY are the address of the server, with a user; NO_PROXY is `direct.example`.
import http from 'k6/http';
import ws from 'k6/ws';

export const options = { hosts: { 'direct.example': '127.0.0.2' } };

const shown = (label, response) =>
  console.log(label, response.status, response.error_code, response.body);

export default function () {
  shown('plain', http.get('http://shop.example/html?x=1'));
  shown('host', http.get('http://shop.example:8080', { headers: { Host: 'other.example' } }));
  shown('user', http.post('http://me:secret@shop.example/a%20b', { a: 1 }));
  shown('redirect', http.get('http://shop.example/redirect/1'));
  shown('secure', http.get('https://shop.example/path'));
  shown('this machine', http.get(`${__ENV.URL}/json`));
  shown('excepted', http.get('http://direct.example:1/'));
  try {
    ws.connect('ws://shop.example/ws', () => console.log('open'));
  } catch (error) {
    console.log('ws', String(error).includes('Forbidden'));
  }
}
