// k6-summary: the summary as text and as JUnit's XML, in the layout that k6 had before its version 1.

const UNITS = { s: ['s', 1e-3, 2], ms: ['ms', 1, 2], us: ['µs', 1e3, 2] };
const COLORS = { green: 32, red: 31, cyan: 36, faint: 2 };

/** At most `places` digits after the point, without zeros at the end. */
function trimmed(value, places) {
  return String(Number(value.toFixed(places)));
}

function humanizeDuration(milliseconds, timeUnit) {
  if (Object.hasOwn(UNITS, timeUnit ?? '')) {
    const [name, factor, places] = UNITS[timeUnit];
    return (milliseconds * factor).toFixed(places) + name;
  }
  if (milliseconds === 0) return '0s';
  if (milliseconds < 0.001) return trimmed(milliseconds * 1e6, 0) + 'ns';
  if (milliseconds < 1) return trimmed(milliseconds * 1e3, 2) + 'µs';
  if (milliseconds < 1000) return trimmed(milliseconds, 2) + 'ms';
  const seconds = milliseconds / 1000;
  if (seconds < 60) return trimmed(seconds, 2) + 's';
  const whole = Math.trunc(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  return (hours > 0 ? `${hours}h` : '') + `${minutes}m${whole % 60}s`;
}

function humanizeBytes(bytes) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB', 'ZB', 'YB'];
  if (Math.abs(bytes) < 10) return `${bytes} B`;
  const power = Math.min(Math.floor(Math.log10(Math.abs(bytes)) / 3), units.length - 1);
  const scaled = Math.floor((bytes / 1000 ** power) * 10 + 0.5) / 10;
  return `${scaled.toFixed(scaled < 10 ? 1 : 0)} ${units[power]}`;
}

/** A value of a metric as people read it. */
export function humanizeValue(value, metric, timeUnit) {
  if (metric.type === 'rate') return (Math.trunc(value * 100 * 100) / 100).toFixed(2) + '%';
  switch (metric.contains) {
    case 'data': return humanizeBytes(value);
    case 'time': return humanizeDuration(value, timeUnit);
    default: return trimmed(value, 6);
  }
}

/** What stands in front of the columns: the groups with their checks. */
function* groupLines(group, indent, paint) {
  if (group.name !== '') {
    yield `${indent}█ ${group.name}`;
    yield '';
    indent += '  ';
  }
  for (const { name, passes, fails } of group.checks) {
    if (fails === 0) {
      yield paint(`${indent}✓ ${name}`, 'green');
    } else {
      const percent = Math.floor((100 * passes) / (passes + fails));
      yield paint(`${indent}✗ ${name}`, 'red');
      yield paint(`${indent} ↳  ${percent}% — ✓ ${passes} / ✗ ${fails}`, 'red');
    }
  }
  if (group.checks.length > 0) yield '';
  for (const inner of group.groups) yield* groupLines(inner, indent, paint);
}

/** The value of a metric that is no trend, and what is told beside it. */
function figures(metric, timeUnit) {
  const { values } = metric;
  const show = (value) => humanizeValue(value, metric, timeUnit);
  switch (metric.type) {
    case 'counter': return [show(values.count), `${show(values.rate)}/s`];
    case 'gauge': return [show(values.value), `min=${show(values.min)}`, `max=${show(values.max)}`];
    case 'rate': return [show(values.rate), `✓ ${values.passes}`, `✗ ${values.fails}`];
    default: return [];
  }
}

/** The widest text of each column. */
function widths(rows) {
  const widest = [];
  for (const row of rows) {
    row.forEach((text, at) => { widest[at] = Math.max(widest[at] ?? 0, [...text].length); });
  }
  return widest;
}

function padded(row, columns) {
  return row.map((text, at) => text + ' '.repeat(columns[at] - [...text].length)).join(' ');
}

function* metricLines(data, indent, timeUnit, paint) {
  const parent = (name) => name.split('{')[0];
  const names = Object.keys(data.metrics).sort((left, right) => {
    const order = parent(left) < parent(right) ? -1 : Number(parent(left) > parent(right));
    return order || (left < right ? -1 : 1);
  });
  const title = (name) => {
    const at = name.indexOf('{');
    return at < 0 ? name : `  { ${name.slice(at + 1, -1)} }`;
  };
  const column = Math.max(0, ...names.map((name) => [...title(name)].length)) + 3;
  const stats = data.options?.summaryTrendStats ?? [];
  const rows = new Map(names.map((name) => {
    const metric = data.metrics[name];
    const cell = (stat) => {
      const value = metric.values[stat];
      return `${stat}=${stat === 'count' ? value : humanizeValue(value, metric, timeUnit)}`;
    };
    const shown = stats.length > 0 ? stats : Object.keys(metric.values);
    return [name, metric.type === 'trend' ? shown.map(cell) : figures(metric, timeUnit)];
  }));
  const of = (trend) => names.filter((name) => (data.metrics[name].type === 'trend') === trend);
  const [trends, others] = [true, false].map((trend) => widths(of(trend).map((name) => rows.get(name))));
  for (const name of names) {
    const metric = data.metrics[name];
    const results = Object.values(metric.thresholds ?? {});
    let mark = ' ';
    if (results.length > 0) {
      mark = results.every(({ ok }) => ok) ? paint('✓', 'green') : paint('✗', 'red');
    }
    const dots = '.'.repeat(column - [...title(name)].length);
    const figure = padded(rows.get(name), metric.type === 'trend' ? trends : others);
    yield `${indent}${mark} ${title(name)}${paint(dots, 'faint')}: ${paint(figure.trimEnd(), 'cyan')}`;
  }
}

/** The whole summary as text. */
export function textSummary(data, options = {}) {
  const { indent = ' ', enableColors = !data.options?.noColor } = options;
  const timeUnit = options.summaryTimeUnit ?? data.options?.summaryTimeUnit;
  const shown = { ...data, options: { ...data.options } };
  if (options.summaryTrendStats) shown.options.summaryTrendStats = options.summaryTrendStats;
  const paint = (text, color) => (enableColors ? `\x1b[${COLORS[color]}m${text}\x1b[0m` : text);
  const lines = [...groupLines(data.root_group, `${indent}    `, paint)];
  return [...lines, ...metricLines(shown, `${indent}  `, timeUnit, paint)].join('\n') + '\n';
}

/** Every threshold as a test case. */
export function jUnit(data, options = {}) {
  const escapes = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
  const escape = (text) => String(text).replace(/[&<>"']/g, (found) => escapes[found]);
  const cases = [];
  let failures = 0;
  for (const [name, metric] of Object.entries(data.metrics)) {
    for (const [threshold, { ok }] of Object.entries(metric.thresholds ?? {})) {
      const attribute = `name="${escape(`${name} - ${threshold}`)}"`;
      if (!ok) failures += 1;
      cases.push(ok ? `<testcase ${attribute} />`
        : `<testcase ${attribute}><failure message="failed" /></testcase>`);
    }
  }
  const counts = `tests="${cases.length}" failures="${failures}"`;
  const suite = `<testsuite name="${escape(options.name ?? 'k6 thresholds')}" ${counts}>`;
  return `<?xml version="1.0"?>\n<testsuites ${counts}>\n${suite}\n${cases.join('\n')}\n</testsuite>\n</testsuites>`;
}
