// papaparse: reading CSV. Written anew after its documentation; what is missing throws by its name.

const KNOWN = ['delimiter', 'newline', 'quoteChar', 'escapeChar', 'header', 'transformHeader', 'transform',
  'dynamicTyping', 'preview', 'comments', 'skipEmptyLines', 'fastMode', 'encoding', 'complete', 'step'];
const DELIMITERS = [',', '\t', '|', ';'];

/** The delimiter that most lines have equally often. */
function guess(text, read) {
  let best = [',', -1];
  for (const delimiter of DELIMITERS) {
    const rows = read(delimiter, 10).filter((row) => row.length > 1 || row[0] !== '');
    const fields = rows[0]?.length ?? 0;
    const regular = rows.filter((row) => row.length === fields).length / Math.max(rows.length, 1);
    if (fields > 1 && regular * fields > best[1]) best = [delimiter, regular * fields];
  }
  return best[0];
}

/** All rows as arrays of texts; at most `limit`. */
function rowsOf(text, { delimiter, quote, escape, comments, limit, errors }) {
  const rows = [];
  let [row, at] = [[], 0];
  const ends = (from) => text[from] === '\n' || text[from] === '\r';
  const afterEnd = (from) => (text.startsWith('\r\n', from) ? from + 2 : from + 1);
  while (at <= text.length && rows.length < limit) {
    if (comments && row.length === 0 && text.startsWith(comments, at)) {
      while (at < text.length && !ends(at)) at += 1;
      at = afterEnd(at);
      if (at > text.length) return rows;
      continue;
    }
    let field = '';
    if (text[at] === quote) {
      at += 1;
      for (;;) {
        if (at >= text.length) {
          errors.push({ type: 'Quotes', code: 'MissingQuotes', message: 'Quoted field unterminated', row: rows.length });
          break;
        }
        if (text[at] === escape && text[at + 1] === quote) {
          field += quote;
          at += 2;
        } else if (text[at] === quote) {
          at += 1;
          break;
        } else {
          field += text[at];
          at += 1;
        }
      }
    }
    const start = at;
    while (at < text.length && !ends(at) && !text.startsWith(delimiter, at)) at += 1;
    row.push(field + text.slice(start, at));
    if (at < text.length && text.startsWith(delimiter, at) && !ends(at)) {
      at += delimiter.length;
      continue;
    }
    rows.push(row);
    row = [];
    if (at >= text.length) return rows;
    at = afterEnd(at);
  }
  return rows;
}

function typed(text) {
  if (/^(true|false)$/i.test(text)) return text.toLowerCase() === 'true';
  if (/^\s*-?(\d+\.?|\.\d+|\d+\.\d+)([eE][-+]?\d+)?\s*$/.test(text)) return Number(text);
  return text === '' ? null : text;
}

export function parse(text, config = {}) {
  const unknown = Object.keys(config).find((key) => !KNOWN.includes(key) && config[key]);
  if (unknown) throw new Error(`papaparse: the setting \`${unknown}\` is not supported`);
  if (typeof text !== 'string') throw new TypeError('papaparse: a text is expected');
  const source = text.replace(/^\ufeff/, '');
  const errors = [];
  const quote = config.quoteChar ?? '"';
  const comments = config.comments === true ? '#' : config.comments;
  const rules = { quote, escape: config.escapeChar ?? quote, comments };
  const delimiter = config.delimiter
    || guess(source, (one, limit) => rowsOf(source, { ...rules, delimiter: one, limit, errors: [] }));
  let rows = rowsOf(source, { ...rules, delimiter, limit: Infinity, errors });
  if (config.skipEmptyLines) {
    const greedy = config.skipEmptyLines === 'greedy';
    const isEmpty = (row) => (greedy ? row.join('').trim() === '' : row.length === 1 && row[0] === '');
    rows = rows.filter((row) => !isEmpty(row));
  }
  const fields = config.header
    ? (rows.shift() ?? []).map((name, index) => config.transformHeader?.(name, index) ?? name) : undefined;
  const truncated = config.preview > 0 && rows.length > config.preview;
  if (truncated) rows.length = config.preview;
  const isTyped = (column) => (typeof config.dynamicTyping === 'function' ? config.dynamicTyping(column)
    : config.dynamicTyping === true || config.dynamicTyping?.[column] === true);
  const value = (cell, column) => {
    const transformed = config.transform ? config.transform(cell, column) : cell;
    return isTyped(column) && typeof transformed === 'string' ? typed(transformed) : transformed;
  };
  const data = rows.map((row, at) => {
    if (!fields) return row.map(value);
    if (row.length !== fields.length) {
      const few = row.length < fields.length;
      errors.push({ type: 'FieldMismatch', code: few ? 'TooFewFields' : 'TooManyFields', row: at,
        message: `Too ${few ? 'few' : 'many'} fields: expected ${fields.length} fields but parsed ${row.length}` });
    }
    const record = {};
    row.forEach((cell, index) => {
      if (index < fields.length) record[fields[index]] = value(cell, fields[index]);
      else (record.__parsed_extra ??= []).push(cell);
    });
    return record;
  });
  const linebreak = source.includes('\r\n') ? '\r\n' : '\n';
  const meta = { delimiter, linebreak, aborted: false, truncated, ...(fields && { fields }) };
  const results = { data, errors, meta };
  if (config.step) data.forEach((one) => config.step({ ...results, data: one }));
  config.complete?.(results);
  return results;
}

export function unparse() {
  throw new Error('papaparse: `unparse` is not supported');
}

export default { parse, unparse };
