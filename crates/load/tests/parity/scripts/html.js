import { parseHTML } from 'k6/html';
import html from 'k6/html';

export const options = { iterations: 1 };
const page = open('./lib/page.html');

const told = (value) => {
  if (value === undefined) return 'undefined';
  if (value === null) return 'null';
  if (Array.isArray(value)) return value.map(told);
  if (typeof value === 'object' && typeof value.nodeName === 'function') {
    return `<${value.nodeName()} ${value.id()} ${value.textContent().slice(0, 10)}>`;
  }
  if (typeof value === 'object' && typeof value.size === 'function') {
    return value.toArray().map((each) => told(each.get(0)));
  }
  return value;
};
const say = (name, value) => console.log(name, JSON.stringify(told(value)));

export default function () {
  const doc = parseHTML(page);
  say('same', typeof html.parseHTML === 'function');
  say('doc', [doc.size(), doc.url, JSON.stringify(doc), doc.text().length, doc.html()]);
  for (const selector of [
    'p', 'P', 'body > p', 'p + p', 'p ~ ul', '#list li', 'li:first-child', 'li:last-child', 'li:nth-child(2n+1)', 'li:nth-last-child(2)',
    'p:first-of-type', 'p:nth-of-type(2)', 'em:only-child', 'li:not(.odd)', 'ul:has(span)', 'div:empty', ':root', '.one.two', '[title]',
    '[type=radio]', '[type="RADIO"]', "[type='checkbox'][checked]", '[name^=s]', '[name$="2"]', '[id*=ex]', '[class~=two]', '[lang|=ko]',
    '[name!=h][value]', ':input', 'input:checked', 'option:checked', ':disabled', 'input:enabled', 'a:link', 'li:contains(TWO)',
    'li:contains("Three")', 'li:containsOwn("deep")', 'ul:haschild(.odd)', 'p:lang(ko)', 'h1,h2, #four', '.SECOND', '.Second', 'foreignobject',
    'foreignObject', 'svg a', 'template p', 'noscript p', '*:hover', '::before', 'p:unknown', '', '[', 'li:is(.odd)', '>p', 'a[href$="/"]',
    'p.first, p.first', 'td:only-of-type', 'option[value]', 'table tr', 'div', '#a\\31', '.inside', 'p:not(.first, .Second)', 'body *:nth-child(3)',
  ]) say(selector, doc.find(selector));

  const list = doc.find('#list');
  const items = list.find('li');
  say('add', items.add('#top'));
  say('add selection', list.find('li').first().add(doc.find('h1')));
  say('add element', list.find('li').first().add(doc.find('h1').get(0)));
  say('find selection', list.find(doc.find('span, h1')));
  say('find element', list.find(doc.find('span').get(0)));
  say('closest', doc.find('span').closest('ul'));
  say('closest self', items.closest('li'));
  say('closest selection', doc.find('span').closest(list));
  say('has', items.has('span'));
  say('has selection', items.has(doc.find('span')));
  say('not', items.not('.odd'));
  say('not selection', items.not(items.first()));
  say('not element', doc.find('li, span').not(doc.find('span').get(0)));
  say('not function', items.not((index) => index > 1));
  say('filter', items.filter('.odd'));
  say('filter selection', items.filter(items.last()));
  say('filter function', items.filter((index, each) => each.text() === 'One'));
  say('is', [items.is('.odd'), items.is('p'), items.is(items.last()), items.is((index) => index === 9)]);
  for (const [name, from] of [['li', items.eq(1)], ['all', items], ['span', doc.find('span')], ['none', doc.find('nothing')], ['doc', doc]]) {
    for (const method of ['next', 'nextAll', 'prev', 'prevAll', 'parent', 'parents', 'siblings', 'children']) {
      if (name === 'doc' && !['parent', 'parents', 'children'].includes(method)) continue;
      say(`${name} ${method}`, from[method]());
      say(`${name} ${method} filtered`, from[method]('li, ul'));
    }
    if (name === 'doc') continue;
    for (const method of ['nextUntil', 'prevUntil', 'parentsUntil']) {
      say(`${name} ${method}`, from[method]());
      say(`${name} ${method} selector`, from[method]('#four, body'));
      say(`${name} ${method} selection`, from[method](doc.find('#four, body')));
      say(`${name} ${method} both`, from[method]('#four, html', 'li, ul'));
      say(`${name} ${method} filter`, from[method](null, 'li'));
    }
    for (const method of ['first', 'last', 'end', 'contents', 'size', 'text', 'html', 'val']) say(`${name} ${method}`, from[method]());
    say(`${name} index`, [from.index(), from.index('li'), from.index(items.eq(1)), from.index(items.get(0))]);
    say(`${name} get`, [from.get(0), from.get(-1), from.get(1), from.get(9), from.get()]);
    say(`${name} eq`, [from.eq(0), from.eq(-1), from.eq(7), from.eq(-7)]);
    if (name !== 'none') say(`${name} slice`, [from.slice(1), from.slice(0, 2), from.slice(0, 99)]);
  }
  say('end', [items.first().end(), list.find('li').end().end(), doc.end()]);
  say('attr', [list.attr('type'), list.attr('nothing'), list.attr('nothing', 'default'), doc.find('x').attr('y')]);
  const body = doc.find('body');
  say('data', Object.entries(body.data()).sort());
  say('data of', ['userId', 'user-id', 'myURL', 'myUrl', 'list', 'broken', 'yes', 'none', 'empty', 'float', 'int', 'nothing'].map((name) => body.data(name)));
  say('data none', [doc.find('em').data(), doc.find('nothing').data('x')]);
  say('map', items.map((index, each) => index + each.text()));
  say('map throws', items.map((index, each) => { if (index === 1) throw new Error('x'); return each.size(); }));
  const seen = [];
  say('each', items.each((index, each) => { seen.push(index + each.nodeName()); }).size());
  say('each saw', seen);
  for (const wrong of [() => items.each('x'), () => items.each(() => { throw new Error('oops'); }), () => items.filter(5), () => items.map(1), () => items.find(5), () => items.is({})]) {
    try {
      say('no error', wrong());
    } catch (error) {
      console.log('an error', String(error.message || error).split('\n')[0].includes('argument') || String(error).includes('failed'));
    }
  }
  for (const selector of ['input', 'textarea', 'select', 'option', 'button', 'p']) {
    say(`val ${selector}`, doc.find(selector).toArray().map((each) => each.val()));
  }
  const form = doc.find('form');
  say('serialize', form.serialize());
  say('serializeArray', form.serializeArray().map(({ name, value }) => [name, value]));
  say('serializeObject', Object.entries(form.serializeObject()).sort());
  say('serialize fields', doc.find('#text1, #outside').serialize());
  for (const selector of ['h1', 'p', 'pre', 'style', 'script', 'noscript', 'iframe', 'svg', '#t', 'table', 'div', 'textarea', 'template', 'head', 'a']) {
    say(`html ${selector}`, doc.find(selector).html());
  }
}
