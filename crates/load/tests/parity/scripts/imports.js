// Of modules of k6 also what is not there may be imported.
import { randomString, sha256 } from 'k6/crypto';
import { WritableStream } from 'k6/experimental/streams';
import k6, { delete as gone, sleep } from 'k6';
import plain, { add } from './lib/plain.js';
import marked, { named } from './lib/marked.js';
import * as everything from './lib/module.js';
export default function () {
  console.log(JSON.stringify([plain.value, add(2, 3), marked, named, everything.default, everything.one]));
  console.log(typeof randomString, typeof sha256, typeof WritableStream, typeof gone, typeof sleep, typeof k6.check);
}
