import * as library from 'https://jslib.k6.io/url/1.0.0/index.js';

const { URL, URLSearchParams } = library;
const shown = (label, call) => {
  let result;
  try { result = JSON.stringify(call()); } catch (error) { result = `throws ${error.name}`; }
  console.log(`${label}: ${result}`);
};
const parts = (url) => ['href', 'origin', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash'].map((name) => url[name]);

export default function () {
  console.log(Object.keys(library).filter((name) => name !== 'default').sort().join());
  for (const [address, base] of [
    ['https://user:p%40ss@example.com:8080/a/b?x=1&y=2#z'], ['http://EXAMPLE.com:80/'], ['https://example.com:443/a/../b/./c'], ['/path?q', 'https://a.b/c/d'],
    ['../up', 'https://a.b/c/d/e'], ['//other/x', 'https://a.b/'], ['?only', 'https://a.b/c?d#e'], ['#h', 'https://a.b/c?d'], ['http://한국.example/길 x?값=1 2'],
    ['http://[::1]:3000/'], ['http://1.2.3/'], ['http://0x7f.1/'], ['mailto:a@b'], ['data:text/plain,x%20y'], ['file:///a/b'], ['javascript:alert(1)'],
    ['no address'], [''], ['http://'], ['http://a:99999/'], ['  http://trim/  '], ['http:\\\\back\\slash'], ['https://a/%zz?%zz#%zz'], ['http://a/{}|^`"<>?{}|^`\'#{}|^`"<>'], ['ws://h/x'], ['x', 'mailto:a'],
  ]) shown(`${address} ${base}`, () => parts(base === undefined ? new URL(address) : new URL(address, base)));
  for (const [name, value] of [
    ['href', 'http://n/w'], ['href', 'bad'], ['protocol', 'http'], ['protocol', 'http:'], ['protocol', 'mailto'], ['username', 'a b'], ['password', ''], ['host', 'h:1'], ['host', 'h2'], 
    ['hostname', 'ok'], ['port', '99'], ['port', ''], ['port', 'abc'], ['port', 443], ['pathname', 'no slash'], ['pathname', ''], ['search', 'a=b c'], ['search', ''], ['search', '?'], ['hash', 'x y'], ['hash', ''], ['origin', 'http://x'],
  ]) {
    shown(`set ${name} ${value}`, () => {
      const url = new URL('https://u:p@example.com:8443/p?s=1#f');
      url[name] = value;
      return [url.href, [...url.searchParams]];
    });
  }
  shown('searchParams of it', () => {
    const url = new URL('https://example.com/?a=1&a=2');
    url.searchParams.append('b', 'x y+z&');
    url.searchParams.delete('a');
    const one = url.href;
    url.searchParams.set('c', '한글~!*()\'');
    url.searchParams.sort();
    return [one, url.href, url.search, `${url}`, JSON.stringify(url), url.searchParams === url.searchParams];
  });
  for (const [label, make] of Object.entries({
    text: () => new URLSearchParams('?a=1&b=2&a=3&=x&y&z=%20+%zz&&q=1=2'),
    object: () => new URLSearchParams({ a: 1, b: null, c: undefined, d: [1, 2] }),
    list: () => new URLSearchParams([['a', 1], ['b', 2]]),
    map: () => new URLSearchParams(new Map([['k', 'v']])),
    copy: () => new URLSearchParams(new URLSearchParams('x=y')),
    bad: () => new URLSearchParams([['a']]),
    number: () => new URLSearchParams(5),
    nothing: () => new URLSearchParams(),
    none: () => new URLSearchParams(null),
    undefined: () => new URLSearchParams(undefined),
  })) shown(label, () => [make().toString(), [...make()], [...make().keys()], [...make().values()]]);
  shown('methods', () => {
    const params = new URLSearchParams('a=1&b=2&a=3');
    const seen = [];
    params.forEach((value, name) => seen.push(name + value));
    params.set('a', 'new');
    params.set('z', 1);
    return [seen, params.get('a'), params.get('none'), params.getAll('a'), params.has('b'), params.has('none'), params.toString()];
  });
  for (const call of [() => new URL(), () => URL('http://a/'), () => new URLSearchParams('a').append('x'), () => new URLSearchParams('a').get(), () => URLSearchParams('a')]) shown('call', call);
  console.log(Object.prototype.toString.call(new URL('http://a/')), Object.prototype.toString.call(new URLSearchParams()), [...new URL('http://a/?x=1').searchParams.entries()].length);
}
