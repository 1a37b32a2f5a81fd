import papaparse from 'https://jslib.k6.io/papaparse/5.1.1/index.js';

const shown = (label, call) => {
  let result;
  try { result = JSON.stringify(call()); } catch (error) { result = `throws ${error.name}`; }
  console.log(`${label}: ${result}`);
};

export default function () {
  const text = 'name,age,"no te"\nAda,36,"x, y"\nBob,,"say ""hi"""\n\nCy,true,z,extra\nDi\n';
  for (const [label, given, config] of [
    ['plain', text], ['header', text, { header: true }], ['skip', text, { header: true, skipEmptyLines: true }], ['greedy', 'a,b\n , \nc,d', { skipEmptyLines: 'greedy' }],
    ['typed', 'a,b,c,d,e,f,g,h\n1,2.5,-3,1e3,TRUE,false,,0x1\n01, 5,1.,.5,True,null,2020-01-01T00:00:00Z,9007199254740993', { header: true, dynamicTyping: true }],
    ['typed by name', 'a,b\n1,2', { header: true, dynamicTyping: { a: true } }], ['typed by function', 'a,b\n1,2', { header: true, dynamicTyping: (name) => name === 'b' }], ['typed by number', 'a,b\n1,2', { dynamicTyping: { 1: true } }],
    ['preview', 'a\n1\n2\n3', { preview: 2 }], ['preview with header', 'a\n1\n2\n3', { header: true, preview: 2 }], ['comments', '#x\na,b\n#y\n1,2', { comments: true }], ['other comments', '//x\na,b', { comments: '//' }],
    ['delimiter', 'a;b\n1;2', { delimiter: ';' }], ['guess ;', 'a;b;c\n1;2;3'], ['guess tab', 'a\tb\n1\t2'], ['guess |', 'a|b\n1|2'], ['guess none', 'abc\ndef'], ['guess of both', 'a,b;c,d\n1,2;3,4'],
    ['windows', 'a,b\r\n1,2\r\n'], ['old mac', 'a,b\r1,2\r'], ['newline', 'a,b\r\n1,2', { newline: '\n' }], ['quotes', "a,'b,c'\n", { quoteChar: "'" }], ['escape', 'a,"b\\"c"', { escapeChar: '\\' }],
    ['lines in quotes', 'a,"b\nc"\n1,2'], ['quote inside', 'a,b"c"d\n'], ['quote and more', 'a,"b"c,d\n1,2,3'], ['open quote', 'a,"b\nc'], ['spaces', 'a , "b" ,c\n1,2,3'], ['empty', ''], ['empty with header', '', { header: true }], ['one line', 'a,b,c'], ['only newline', '\n'], ['bom', '\ufeffa,b\n1,2'],
    ['transformed header', 'A,B\n1,2', { header: true, transformHeader: (name) => name.toLowerCase() }], ['transformed', 'a,b\n1,2', { transform: (value, column) => `${column}:${value}` }], ['transformed by name', 'a,b\n1,2', { header: true, transform: (value, column) => `${column}:${value}` }],
    ['same names', 'a,a\n1,2', { header: true }], ['fast', 'a,"b"\n1,2', { fastMode: true }], ['two of delimiter', 'a, b\n1, 2', { delimiter: ', ' }], ['empty cells', ',,\n,,'], ['trailing delimiter', 'a,b,\n1,2,'],
    ['delimitersToGuess', 'a:b\n1:2', { delimitersToGuess: [':', ','] }],
  ]) shown(label, () => papaparse.parse(given, config));
  const steps = [];
  shown('step', () => [papaparse.parse('a,b\n1,2\n3,4', { header: true, step: (row) => steps.push([row.data, row.errors, row.meta.delimiter]) }), steps]);
  shown('complete', () => { const seen = []; papaparse.parse('a,b', { complete: (results) => seen.push(results.data) }); return seen; });
  for (const [label, given, config] of [
    ['objects', [{ a: 1, b: 'x,y' }, { a: null, b: 'q"q' }]], ['arrays', [['a', 'b'], [1, ' lead'], [undefined, 'trail ']]], ['fields', { fields: ['x', 'y'], data: [[1, 2], [3, 4]] }], ['fields of objects', { fields: ['b'], data: [{ a: 1, b: 2 }] }],
    ['quotes', [['a', 1]], { quotes: true }], ['some quotes', [['a', 'b']], { quotes: [true, false] }], ['delimiter', [['a', 'b;c']], { delimiter: ';' }], ['newline', [['a'], ['b']], { newline: '\n' }], ['no header', [{ a: 1 }], { header: false }], ['empty', []], ['skip', [['a'], [''], ['b']], { skipEmptyLines: true }], ['columns', [{ a: 1, b: 2 }], { columns: ['b'] }], ['text', '[["a","b"]]'], ['newline inside', [['a\nb', 'c\rd']]], ['quoteChar', [["it's", 'x,y']], { quoteChar: "'" }],
  ]) shown(`unparse ${label}`, () => papaparse.unparse(given, config));
  console.log(Object.keys(papaparse).filter((name) => /^[a-z]/.test(name)).sort().join());
}
