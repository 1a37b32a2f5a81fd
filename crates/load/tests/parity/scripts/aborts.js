import exec from 'k6/execution';
export const options = { iterations: 5 };
export default function () {
  if (exec.scenario.iterationInTest === 2) exec.test.abort('enough');
}
