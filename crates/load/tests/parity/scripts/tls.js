import http from 'k6/http';

export const options = { insecureSkipTLSVerify: true };

const shown = (label, response) => console.log(label, JSON.stringify([
  response.status, response.status_text, response.proto, response.tls_version, response.tls_cipher_suite, response.ocsp,
  Object.entries(response.headers).filter(([name]) => name !== 'Date').sort(), response.cookies.kept?.length, response.body,
  response.error, response.error_code, response.url.replace(/:\d+/, ''), response.timings.tls_handshaking > 0,
]));

export default function () {
  for (const name of ['H2', 'H2_TLS12', 'H1', 'H1_TLS12', 'OTHER']) {
    const url = __ENV[name];
    shown(`${name} get`, http.get(`${url}/a?b=c`, { headers: { 'X-Own': 'Value', Accept: 'text/*' } }));
    shown(`${name} post`, http.post(`${url}/post`, { field: 'a b', other: 1 }));
    shown(`${name} put`, http.put(`${url}/put`, JSON.stringify({ a: 1 }), { headers: { 'Content-Type': 'application/json' } }));
    shown(`${name} empty post`, http.post(`${url}/empty`));
    shown(`${name} delete`, http.del(`${url}/del`));
    shown(`${name} head`, http.head(`${url}/head`));
    shown(`${name} options`, http.options(`${url}/options`));
    shown(`${name} 404`, http.get(`${url}/status/404`));
    shown(`${name} 204`, http.get(`${url}/status/204`));
    shown(`${name} 503`, http.get(`${url}/status/503`));
    shown(`${name} moved`, http.get(`${url}/moved`));
    shown(`${name} not followed`, http.get(`${url}/moved`, { redirects: 0 }));
    shown(`${name} cookies`, http.get(`${url}/cookies`, { cookies: { given: '1' } }));
    shown(`${name} none`, http.get(`${url}/none`, { responseType: 'none' }));
    shown(`${name} user`, http.get(url.replace('://', '://me:secret@') + '/user'));
    shown(`${name} host`, http.get(`${url}/host`, { headers: { Connection: 'keep-alive', 'Keep-Alive': '5' } }));
  }
}
