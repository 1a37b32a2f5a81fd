import plain, { add } from './lib/plain.js';
import marked, { named } from './lib/marked.js';
import * as everything from './lib/module.js';
export default function () {
  console.log(JSON.stringify([plain.value, add(2, 3), marked, named, everything.default, everything.one]));
}
