// Written for this engine after the documentation of k6-utils; no code of it is used.
import { check as k6Check } from 'k6';

/** A whole number from `min` to `max`, both included. */
export function randomIntBetween(min, max) {
  return min + Math.floor(Math.random() * (max - min + 1));
}

/** One element of an array. */
export function randomItem(array) {
  return array[Math.floor(Math.random() * array.length)];
}

/** `length` characters of `charset`. */
export function randomString(length, charset = 'abcdefghijklmnopqrstuvwxyz') {
  let text = '';
  while (text.length < length) text += charset[Math.floor(Math.random() * charset.length)];
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

/** What stands between `left` and `right`: the first time, or with `repeat` all in an array. */
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
  return repeat ? found : found.length > 0 ? found[0] : null;
}

/**
 * Stages of a bell curve: from two standard deviations before its peak of `maxVUs` to two after.
 * A sixth of the time leads up to it and a sixth down to nothing; the stages share the rest.
 */
export function normalDistributionStages(maxVUs, durationSeconds, numberOfStages = 10) {
  const ramp = Math.ceil(durationSeconds / 6);
  const step = Math.ceil((durationSeconds * 4) / (6 * numberOfStages));
  const stages = [];
  for (let index = 0; index <= numberOfStages; index += 1) {
    const deviations = -2 + (4 * index) / numberOfStages;
    const target = Math.round(maxVUs * Math.exp(-(deviations * deviations) / 2));
    stages.push({ duration: `${index === 0 ? ramp : step}s`, target });
  }
  stages.push({ duration: `${ramp}s`, target: 0 });
  return stages;
}

/** A duration such as `1h30m`, `2d` or `500ms` in milliseconds; a bare number is milliseconds. */
export function parseDuration(text) {
  if (text === undefined || text === null || text === '') {
    throw new Error('the duration is empty');
  }
  const given = String(text).trim();
  if (/^\d+(\.\d+)?$/.test(given)) return Number(given);
  const units = { d: 86400000, h: 3600000, m: 60000, s: 1000, ms: 1, us: 0.001, 'µs': 0.001, ns: 0.000001 };
  const part = /(\d+(?:\.\d+)?)(ms|us|µs|ns|d|h|m|s)/y;
  let sum = 0;
  while (part.lastIndex < given.length) {
    const match = part.exec(given);
    if (match === null) throw new Error(`"${given}" is not a valid duration`);
    sum += Number(match[1]) * units[match[2]];
  }
  return sum;
}

/** `check()` of k6, also with conditions and values that are promises: then it gives one, too. */
export function check(value, sets, tags = {}) {
  const results = {};
  let later = value instanceof Promise;
  if (!later) {
    for (const name of Object.keys(sets)) {
      const condition = sets[name];
      results[name] = typeof condition === 'function' ? condition(value) : condition;
      later = later || results[name] instanceof Promise;
    }
    if (!later) return k6Check(value, results, tags);
  }
  return (async () => {
    const awaited = await value;
    let all = true;
    for (const name of Object.keys(sets)) {
      let result = name in results ? results[name] : sets[name];
      if (!(name in results) && typeof result === 'function') result = result(awaited);
      all = k6Check(awaited, { [name]: await result }, tags) && all;
    }
    return all;
  })();
}
