// The documented load on one running track of 11.7 km: 10 users more every 30 s (6 users/s), held
// for 30 s, up to 300 users for 60 s, then 5 users/s fewer. TIME_SCALE shortens all of it.
import http from 'k6/http';
import { check } from 'k6';

const scale = Number(__ENV.TIME_SCALE || 1);
const seconds = (s) => `${Math.max(1, Math.round(s * scale * 1000))}ms`;

const stages = [];
for (let users = 10; users <= 300; users += 10) {
  stages.push({ duration: seconds(10 / 6), target: users });
  stages.push({ duration: seconds(users < 300 ? 30 : 60), target: users });
}
stages.push({ duration: seconds(300 / 5), target: 0 });

export const options = { stages };

// "Seathwaite Tarn Scrambles": 464 points, 11,735.98 m; the fourth of the bundled trails.
const url = `${__ENV.BASE_URL || 'http://127.0.0.1:8080'}/v1/tracks/${__ENV.TRACK || 4}`;

export default function () {
  const res = http.get(url, { tags: { name: 'track' } });
  check(res, {
    'status is 200': (r) => r.status === 200,
    'it is the long track': (r) => r.body !== null && r.body.indexOf('"lengthMetres":11735.98') > 0,
  });
}
