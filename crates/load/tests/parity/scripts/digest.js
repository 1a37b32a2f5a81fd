import http from 'k6/http';
const url = __ENV.URL;
export default function () {
  const res = http.get(url.replace('//', '//kim:secret@') + '/digest', { auth: 'digest' });
  console.log(`${res.status} ${res.body}`);
  const open = http.post(url.replace('//', '//kim:secret@') + '/open', 'x', { auth: 'digest' });
  console.log(`${open.status} ${open.body}`);
  const basic = http.get(url.replace('//', '//kim:secret@') + '/basic');
  console.log(basic.status);
}
