import http from 'k6/http';
const port = __ENV.URL.split(':')[2];
export const options = {
  hosts: { 'a.example': '127.0.0.1', '*.b.example': `127.0.0.1:${port}`, 'xn--bcher-kva.example': `127.0.0.1:${port}`, 'xn--3e0b707e.example': '127.0.0.1' },
  blockHostnames: ['blocked.example', '*.blocked.example'],
  blacklistIPs: ['10.0.0.0/8'],
};
export default function () {
  for (const url of [`http://a.example:${port}/a`, 'http://x.b.example/b', 'http://blocked.example/', 'http://x.blocked.example/', 'http://10.1.2.3/', 'http://Bücher.example/ü', `http://한국.example:${port}/`]) {
    const res = http.get(url);
    console.log(`${res.status} ${res.error} ${res.error_code} ${res.url.replace(port, 'PORT')}`);
  }
}
