import exec from 'k6/execution';
export default function () {
  exec.test.fail('not good');
  console.log('goes on');
}
