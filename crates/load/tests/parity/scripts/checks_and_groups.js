import { check, group } from 'k6';
export const options = { iterations: 3 };
export default function () {
  console.log(check(1, { one: (v) => v === 1, never: (v) => v === 2 }));
  console.log(check(null, { truthy: () => 'text', zero: () => 0 }, { tag: 'x' }));
  console.log(check(null, {}));
  console.log(check(null, { value: true, other: false, list: [] }));
  const value = group('outer', () => {
    check(1, { inside: true });
    return group('inner', () => {
      check(1, { inside: false });
      return 7;
    });
  });
  console.log(value);
  try {
    check(1, { throws: () => { throw new Error('from the check'); } });
  } catch (error) {
    console.log(error.message);
  }
}
