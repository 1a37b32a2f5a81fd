import { setTimeout, clearTimeout } from 'k6/timers';
export default async function () {
  const order = [];
  const stopped = setTimeout(() => order.push('never'), 5);
  clearTimeout(stopped);
  setTimeout(() => order.push('late'), 20);
  setTimeout((a, b) => order.push(a + b), 1, 'ar', 'gs');
  await new Promise((done) => setTimeout(done, 40));
  Promise.resolve().then(() => order.push('micro'));
  await null;
  console.log(order.join());
}
