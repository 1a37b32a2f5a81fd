import { SharedArray } from 'k6/data';
const data = new SharedArray('some', () => [{ a: 1 }, 'two', [3]]);
export default function () {
  console.log(JSON.stringify([data.length, data[0], data[1], data[2], data[3]]));
  console.log(JSON.stringify(data.map((x) => typeof x)));
  try {
    data[0] = 1;
    console.log('could be set');
  } catch (error) {
    console.log('cannot be set');
  }
}
