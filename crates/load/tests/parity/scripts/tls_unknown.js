import http from 'k6/http';

export default function () {
  for (const name of ['H2', 'H1_TLS12', 'OTHER', 'EXPIRED']) {
    const response = http.get(`${__ENV[name]}/a`);
    console.log(name, JSON.stringify([response.status, response.proto, response.tls_version, response.tls_cipher_suite, response.ocsp, response.error.replace(/time \S+/, 'time NOW'), response.error_code, response.body]));
  }
  try {
    http.get(`${__ENV.H2}/thrown`, { throw: true });
  } catch (error) {
    console.log('throws', String(error).includes('x509'));
  }
  // TLS where none is spoken.
  const plain = http.get(__ENV.URL.replace('http:', 'https:'));
  console.log('plain', plain.status, plain.error, plain.error_code);
}
