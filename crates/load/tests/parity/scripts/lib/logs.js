export default function () {
  console.log('two', { words: [1, 'a b'] }, "it's time");
  console.warn('line\nbreak "quoted" <tag> & more \u2028 한글 \x01');
  console.error('plain');
  console.debug('not shown');
  console.info('');
}
