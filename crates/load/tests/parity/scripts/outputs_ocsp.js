import http from 'k6/http';
export const options = { insecureSkipTLSVerify: true, systemTags: ['status', 'ocsp_status'] };
const recent = (seconds) => Math.abs(seconds - Date.now() / 1000) < 600;
const show = (name, response) => {
  const { produced_at, this_update, next_update, ...rest } = response.ocsp;
  const times = [recent(produced_at), recent(this_update), recent(next_update - 86400) || next_update];
  console.log(name, response.status, JSON.stringify(rest, Object.keys(rest).sort()), times.join());
};
export default function () {
  for (const name of ['NOTHING', 'GOOD', 'FOREVER', 'REVOKED', 'WITHOUT_REASON', 'UNKNOWN', 'CHANGED']) {
    show(name, http.get(`${__ENV[name]}/`));
  }
  show('without TLS', http.get(`${__ENV.URL}/status/200`));
  show('failed', http.get('https://127.0.0.1:1/'));
  const names = Object.keys(http).filter((name) => name.startsWith('OCSP_')).sort();
  console.log(names.map((name) => `${name}=${http[name]}`).join());
}
