import { check, group } from 'k6';
export default function () {
  for (const attempt of [() => group('async', async () => 1), () => check(1, { async: async () => true })]) {
    try {
      console.log(`gives ${typeof attempt()}`);
    } catch (error) {
      console.log(`throws: ${error.message || error}`);
    }
  }
}
