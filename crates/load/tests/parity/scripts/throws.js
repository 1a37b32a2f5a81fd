import { fail } from 'k6';
export const options = { iterations: 4 };
let n = 0;
export default function () {
  n += 1;
  if (n === 1) throw new Error('thrown');
  if (n === 2) fail('failed');
  if (n === 3) null.x;
  console.log(`iteration ${n}`);
}
