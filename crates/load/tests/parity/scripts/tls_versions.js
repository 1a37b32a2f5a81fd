import http from 'k6/http';

export const options = {
  insecureSkipTLSVerify: true,
  tlsVersion: { min: http.TLS_1_2, max: http.TLS_1_2 },
  tlsCipherSuites: ['TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384'],
};

export default function () {
  console.log(http.TLS_1_0, http.TLS_1_1, http.TLS_1_2, http.TLS_1_3);
  for (const name of ['H2', 'H1', 'H1_TLS12']) {
    const response = http.get(`${__ENV[name]}/a`);
    console.log(name, JSON.stringify([response.status, response.proto, response.tls_version, response.tls_cipher_suite, response.error, response.error_code]));
  }
}
