// Written for this engine after the documentation of k6-utils; no code of it is used.
import { check as k6Check } from 'k6';

/** A whole number from `min` to `max`, both included. */
export function randomIntBetween(min, max) {
  return Math.floor(Math.random() * (max - min + 1) + min);
}

/** One element of an array. */
export function randomItem(array) {
  return array[Math.floor(Math.random() * array.length)];
}

/** `length` characters of `charset`. */
export function randomString(length, charset = 'abcdefghijklmnopqrstuvwxyz') {
  let text = '';
  for (let left = length; left > 0; left -= 1) text += charset[Math.floor(Math.random() * charset.length)];
  return text;
}

/** A random UUID (RFC 9562, version 4); `secure` takes it from the system's generator. */
export function uuidv4(secure = false) {
  if (secure) return crypto.randomUUID();
  return 'xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx'.replace(/[xy]/g, (place) => {
    const digit = Math.floor(Math.random() * 16);
    return (place === 'x' ? digit : (digit & 3) | 8).toString(16);
  });
}

/** The text between `left` and `right`: the first one, or with `repeat` an array of all; `null` if there is none. */
export function findBetween(content, left, right, repeat = false) {
  const found = [];
  let from = 0;
  for (;;) {
    const start = content.indexOf(left, from);
    const end = start < 0 ? -1 : content.indexOf(right, start + left.length);
    if (end < 0) break;
    found.push(content.substring(start + left.length, end));
    if (!repeat) break;
    from = end + right.length;
  }
  if (found.length === 0) return null;
  return repeat ? found : found[0];
}

/**
 * Stages of a bell curve: from two standard deviations before its peak of `maxVUs` to two after.
 * A sixth of the time leads up to it and a sixth down to nothing; the stages share the rest.
 */
export function normalDistributionStages(maxVUs, durationSeconds, numberOfStages = 10) {
  const ramp = `${Math.ceil(durationSeconds / 6)}s`;
  const step = `${Math.ceil((durationSeconds * 4) / (6 * numberOfStages))}s`;
  const curve = [];
  for (let index = 0; index <= numberOfStages; index += 1) {
    const deviations = (4 * index) / numberOfStages - 2;
    curve.push(Math.exp(-(deviations * deviations) / 2));
  }
  // An odd number of stages has none in the middle: the highest ones are the peak.
  const highest = Math.max(...curve);
  const stages = curve.map((height, index) => {
    return { duration: index === 0 ? ramp : step, target: Math.round((height * maxVUs) / highest) };
  });
  return [...stages, { duration: ramp, target: 0 }];
}

const UNITS = new Map([['d', 86400000], ['h', 3600000], ['m', 60000], ['s', 1000], ['ms', 1]]);

/** A duration such as `1h30m`, `2d` or `500ms` in milliseconds; a number without a unit is milliseconds. */
export function parseDuration(text) {
  if (text === undefined || text === null || text.length < 1) throw new Error('str is empty');
  const isDigit = (character) => (character >= '0' && character <= '9') || character === '.';
  const seen = new Set();
  let [sum, number] = [0, ''];
  for (let at = 0; at < text.length; at += 1) {
    // Other characters in place of digits are skipped, as in the original.
    if (isDigit(text[at])) number += text[at];
    let unit = text[at + 1];
    if (unit === undefined || isDigit(unit)) continue;
    at += 1;
    if (unit === 'm' && text[at + 1] === 's') {
      unit = 'ms';
      at += 1;
    }
    if (!UNITS.has(unit)) throw new Error(`${unit} is an unsupported time unit`);
    if (seen.has(unit)) throw new Error(`${unit} time unit is provided multiple times`);
    seen.add(unit);
    const value = parseFloat(number);
    sum += unit === 'ms' ? Math.trunc(value) : value * UNITS.get(unit);
    number = '';
  }
  return number === '' ? sum : sum + parseFloat(number);
}

/** Like `check()` of k6, but conditions and values may be promises: then it returns one too. */
export function check(value, sets, tags = {}) {
  if (value instanceof Promise) return value.then((awaited) => check(awaited, sets, tags));
  const { check: _, ...others } = tags ?? {};
  const results = Object.keys(sets).map((name) => {
    const note = (result) => k6Check(value, { [name]: Boolean(result) }, others);
    const result = typeof sets[name] === 'function' ? sets[name](value) : sets[name];
    return result instanceof Promise ? result.then(note) : note(result);
  });
  if (!results.some((result) => result instanceof Promise)) return results.every(Boolean);
  return Promise.all(results).then((all) => all.every(Boolean));
}
