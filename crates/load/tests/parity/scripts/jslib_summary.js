import * as summary from 'https://jslib.k6.io/k6-summary/0.1.0/index.js';

const trend = (contains, scale) => ({
  type: 'trend', contains,
  values: { avg: 1.23456 * scale, min: 0, med: 0.0123 * scale, max: 987.6543 * scale, 'p(90)': 59.999 * scale, 'p(95)': 61.5 * scale, count: 12 },
});
const data = {
  options: { summaryTrendStats: ['avg', 'min', 'med', 'max', 'p(90)', 'p(95)', 'count'], summaryTimeUnit: '', noColor: false },
  state: { isStdOutTTY: false, isStdErrTTY: false, testRunDurationMs: 1234.5 },
  root_group: {
    name: '', path: '', id: 'd41d8cd98f00b204e9800998ecf8427e',
    checks: [
      { name: 'is right', path: '::is right', id: '1', passes: 3, fails: 0 },
      { name: 'is wrong', path: '::is wrong', id: '2', passes: 1, fails: 2 },
    ],
    groups: [{
      name: 'outer', path: '::outer', id: '3', checks: [{ name: '한글', path: '', id: '4', passes: 0, fails: 1 }],
      groups: [{ name: 'inner', path: '::outer::inner', id: '5', checks: [], groups: [] }],
    }],
  },
  metrics: {
    http_req_duration: { ...trend('time', 1), thresholds: { 'p(95)<500': { ok: true }, 'max<"9"': { ok: false } } },
    'http_req_duration{expected_response:true}': { ...trend('time', 0.001), thresholds: { 'avg<1': { ok: true } } },
    iteration_duration: trend('time', 3700),
    waits: trend('time', 60000),
    Own: trend('default', 1),
    own_sizes: trend('data', 5e5),
    checks: { type: 'rate', contains: 'default', values: { rate: 0.66669, passes: 4, fails: 2 }, thresholds: { 'rate>0.9': { ok: false }, 'rate>0.1': { ok: true } } },
    data_sent: { type: 'counter', contains: 'data', values: { count: 9, rate: 9.75 } },
    data_received: { type: 'counter', contains: 'data', values: { count: 1234567, rate: 999.96 } },
    http_reqs: { type: 'counter', contains: 'default', values: { count: 12, rate: 1.23456789 } },
    http_req_failed: { type: 'rate', contains: 'default', values: { rate: 0, passes: 0, fails: 12 } },
    vus: { type: 'gauge', contains: 'default', values: { value: 1, min: 1, max: 10 } },
    'vus{a:b,c:d}': { type: 'gauge', contains: 'default', values: { value: 1.5, min: -1, max: 1e7 } },
    Zeta: { type: 'counter', contains: 'time', values: { count: 86400000, rate: 0.00012 } },
    other_counter: { type: 'counter', contains: 'time', values: { count: 60000, rate: 59999.99 } },
  },
};

const lines = (label, text) => {
  console.log(`${label} ${text.length}`);
  text.split('\n').forEach((line) => console.log(line.replaceAll('\x1b', 'ESC')));
};

export default function () {
  console.log(Object.keys(summary).sort().join());
  lines('colors', summary.textSummary(data));
  lines('plain', summary.textSummary(data, { indent: '', enableColors: false }));
  lines('indent', summary.textSummary(data, { indent: '→ ', enableColors: false, summaryTimeUnit: 's', summaryTrendStats: ['max', 'count'] }));
  lines('no color', summary.textSummary({ ...data, options: { ...data.options, noColor: true, summaryTimeUnit: 'us' } }, {}));
  lines('no checks', summary.textSummary({ ...data, root_group: { name: '', checks: [], groups: [] }, metrics: {} }, { enableColors: true }));
  lines('junit', summary.jUnit(data));
  lines('named', summary.jUnit(data, { name: 'a<b', classname: "c'd" }));
  lines('none', summary.jUnit({ metrics: { vus: data.metrics.vus } }));
  const values = [0, 0.0001, 0.00051, 0.99, 0.9999, 1, 1.999, 9.99, 10, 12.3456789, 999.999, 1000, 1234.5678, 59999.9, 60000, 61999, 3599999, 3600000, 90061001, -5, 1e21, 0.1 + 0.2, 1e-9];
  for (const type of ['trend', 'rate', 'counter']) {
    for (const contains of ['time', 'data', 'default']) {
      for (const unit of ['', 's', 'ms', 'us', 'x', null, undefined]) {
        if (contains !== 'time' && unit !== '') continue;
        // Negative bytes are no bytes; k6-summary makes `NaN undefined` of large ones.
        console.log(type, contains, String(unit), values.map((value) => summary.humanizeValue(value, { type, contains }, unit)).join(' | '));
      }
    }
  }
}
