// k6-summary: the summary as text and as JUnit's XML, in the layout that k6 had before its version 1.

const UNITS = { s: ['s', 1e-3, 2], ms: ['ms', 1, 2], us: ['µs', 1e3, 2] };
const STYLES = { green: [32], red: [31], faint: [2], value: [36], beside: [36, 2] };

/** At most `places` digits after the point, without zeros at the end. */
function trimmed(value, places) {
  return String(Number(value.toFixed(places)));
}

/** The same, truncated. */
function cut(value, places) {
  return trimmed(Math.trunc(10 ** places * value) / 10 ** places, places);
}

function humanizeDuration(milliseconds, timeUnit) {
  if (Object.hasOwn(UNITS, timeUnit ?? '')) {
    const [name, factor, places] = UNITS[timeUnit];
    return (milliseconds * factor).toFixed(places) + name;
  }
  if (milliseconds === 0) return '0s';
  if (milliseconds < 0.001) return `${Math.trunc(milliseconds * 1e6)}ns`;
  if (milliseconds < 1) return `${cut(milliseconds * 1e3, 2)}µs`;
  if (milliseconds < 1000) return `${cut(milliseconds, 2)}ms`;
  const seconds = `${cut((milliseconds % 60000) / 1000, milliseconds > 60000 ? 0 : 2)}s`;
  const minutes = Math.trunc(milliseconds / 60000);
  if (minutes < 1) return seconds;
  const hours = Math.trunc(minutes / 60);
  return `${hours > 0 ? `${hours}h` : ''}${minutes % 60}m${seconds}`;
}

function humanizeBytes(bytes) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB', 'ZB', 'YB'];
  if (bytes < 10) return `${bytes} B`;
  const power = Math.floor(Math.log(bytes) / Math.log(1000));
  const scaled = Math.floor((bytes / 1000 ** power) * 10 + 0.5) / 10;
  return `${scaled.toFixed(scaled < 10 ? 1 : 0)} ${units[power]}`;
}

/** A value of a metric in readable form. */
export function humanizeValue(value, metric, timeUnit) {
  if (metric.type === 'rate') return (Math.trunc(value * 100 * 100) / 100).toFixed(2) + '%';
  switch (metric.contains) {
    case 'data': return humanizeBytes(value);
    case 'time': return humanizeDuration(value, timeUnit);
    default: return trimmed(value, 6);
  }
}

/** The part before the columns: the groups with their checks. */
function* groupLines(group, indent, paint) {
  if (group.name !== '') {
    yield `${indent}█ ${group.name}\n`;
    indent += '  ';
  }
  for (const { name, passes, fails } of group.checks) {
    if (fails === 0) {
      yield paint(`${indent}✓ ${name}`, 'green');
    } else {
      const percent = Math.floor((100 * passes) / (passes + fails));
      yield paint(`${indent}✗ ${name}\n${indent} ↳  ${percent}% — ✓ ${passes} / ✗ ${fails}`, 'red');
    }
  }
  if (group.checks.length > 0) yield '';
  for (const inner of group.groups) yield* groupLines(inner, indent, paint);
}

/** The value of a metric that is no trend, and the figures beside it. */
function figures(metric, timeUnit) {
  const { values } = metric;
  const show = (value) => humanizeValue(value, metric, timeUnit);
  switch (metric.type) {
    case 'counter': return [show(values.count), `${show(values.rate)}/s`];
    case 'gauge': return [show(values.value), `min=${show(values.min)}`, `max=${show(values.max)}`];
    case 'rate': return [show(values.rate), `✓ ${values.passes}`, `✗ ${values.fails}`];
    default: return ['[no data]'];
  }
}

const width = (text) => [...text.normalize('NFKC')].length;

/** The widest text of each column. */
function widths(rows) {
  const widest = [];
  for (const row of rows) {
    row.forEach((text, at) => { widest[at] = Math.max(widest[at] ?? 0, width(text)); });
  }
  return widest;
}

/** Names as a dictionary sorts them: signs, digits, letters, and capitals only where all else is the same. */
function byName(left, right) {
  const rank = (character) => (/[\p{L}]/u.test(character) ? 2 : Number(/[0-9]/.test(character)));
  const [one, other] = [[...left], [...right]];
  for (let at = 0; at < Math.min(one.length, other.length); at += 1) {
    const [a, b] = [one[at].toLowerCase(), other[at].toLowerCase()];
    if (a !== b) return rank(a) - rank(b) || (a < b ? -1 : 1);
  }
  if (one.length !== other.length) return one.length - other.length;
  return left === right ? 0 : left < right ? 1 : -1;
}

function* metricLines(data, { indent, timeUnit, stats, paint }) {
  const split = (name) => {
    const at = name.indexOf('{');
    return at < 0 ? [name, ''] : [name.slice(0, at), name.slice(at)];
  };
  const names = Object.keys(data.metrics).sort((left, right) => {
    const [[one, tags], [other, otherTags]] = [split(left), split(right)];
    return byName(one, other) || byName(tags, otherTags);
  });
  const title = (name) => {
    const at = name.indexOf('{');
    return at < 0 ? ['', name] : ['  ', `{ ${name.slice(at + 1, -1)} }`];
  };
  const column = Math.max(0, ...names.map((name) => width(title(name).join('')))) + 3;
  const isTrend = (name) => data.metrics[name].type === 'trend';
  const rows = new Map(names.map((name) => {
    const metric = data.metrics[name];
    const cell = (stat) => {
      const value = metric.values[stat];
      return stat === 'count' ? String(value) : humanizeValue(value, metric, timeUnit);
    };
    return [name, isTrend(name) ? stats.map(cell) : figures(metric, timeUnit)];
  }));
  const of = (trend) => names.filter((name) => isTrend(name) === trend).map((name) => rows.get(name));
  const [trends, others] = [widths(of(true)), widths(of(false))];
  const figure = (name) => {
    const row = rows.get(name);
    const columns = isTrend(name) ? trends : others;
    return row.map((text, at) => {
      const padding = ' '.repeat(columns[at] - width(text));
      if (isTrend(name)) return `${stats[at]}=${paint(text, 'value')}${padding}`;
      // A single text beside its value ends the line.
      return paint(text, at === 0 ? 'value' : 'beside') + (at === 1 && row.length === 2 ? '' : padding);
    }).join(' ');
  };
  for (const name of names) {
    const { thresholds } = data.metrics[name];
    let mark = ' ';
    if (thresholds) {
      const kept = Object.values(thresholds).every(({ ok }) => ok);
      mark = kept ? paint('✓', 'green') : paint('✗', 'red');
    }
    const [before, text] = title(name);
    const dots = paint(`${'.'.repeat(column - width(before + text))}:`, 'faint');
    yield `${indent}${before}${mark} ${text}${dots} ${figure(name)}`;
  }
}

/** The whole summary as text. */
export function textSummary(data, options) {
  const all = { indent: ' ', enableColors: true, ...data.options, ...options };
  const paint = (text, style) =>
    (all.enableColors ? `\x1b[${STYLES[style].join(';')}m${text}\x1b[0m` : text);
  const shown = { indent: `${all.indent}  `, timeUnit: all.summaryTimeUnit, stats: all.summaryTrendStats, paint };
  const lines = [...groupLines(data.root_group, `${all.indent}    `, paint), ...metricLines(data, shown)];
  return lines.join('\n');
}

/** Every threshold as a test case. */
export function jUnit(data, options) {
  const escapes = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
  const escape = (text) => text.replace(/[&<>"']/g, (found) => escapes[found]);
  const suite = options?.name ? escape(options.name) : 'k6 thresholds';
  const folder = options?.classname ? escape(options.classname) : 'Unnamed folder';
  const cases = [];
  let failures = 0;
  for (const [name, metric] of Object.entries(data.metrics)) {
    for (const [threshold, { ok }] of Object.entries(metric.thresholds ?? {})) {
      const start = `<testcase name="${escape(name)} - ${escape(threshold)}" classname="${folder}"`;
      if (ok) {
        cases.push(`${start} />`);
        continue;
      }
      failures += 1;
      const values = Object.entries(metric.values).map(([stat, value]) => `${stat} value: ${value}`);
      const message = escape(`${metric.type} threshold failed: ${values.join(', ')}`);
      cases.push(`${start}><failure message="${message}" /></testcase>`);
    }
  }
  const counts = `tests="${cases.length}" failures="${failures}"`;
  return [
    '<?xml version="1.0"?>', `    <testsuites ${counts}>`, `      <testsuite name="${suite}" ${counts}>`,
    `        ${cases.join('\n')}`, '      </testsuite>', '    </testsuites>',
  ].join('\n');
}
