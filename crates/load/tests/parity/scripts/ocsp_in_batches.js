import http from 'k6/http';
// In TLS 1.2 the certificate is verified a round trip before the handshake ends.
export const options = { insecureSkipTLSVerify: true, tlsVersion: 'tls1.2' };
// Handshakes at the same time, and connections that are used again: each response has the status of its own server.
export default function () {
  const urls = ['REVOKED', 'NOTHING', 'GOOD', 'REVOKED', 'GOOD'].map((name) => __ENV[name]);
  for (let round = 0; round < 3; round++) {
    console.log(http.batch(urls).map((response) => response.ocsp.status).join());
  }
}
