export default function () {
  console.log('log', 1, { a: [1, 'x'] }, null, undefined, true);
  console.info('info');
  console.warn('warn');
  console.error('error');
  console.debug('debug is not shown');
  console.log([1, [2]], 1.5, -0, NaN);
  console.log('a "quoted" word', 'back\\slash');
}
