// `k6/html` and the pages of responses; `native` has the functions of the engine.
(native) => {
  'use strict';
  const PAGE = Symbol('page');
  const NODES = Symbol('nodes');
  const BEFORE = Symbol('before');

  const isElement = (page, node) => native.type(page, node) === 1;

  // The node after this one, and so on: siblings or parents, one by one.
  function* along(page, node, step) {
    for (let at = step(page, node); at !== undefined; at = step(page, at)) yield at;
  }

  // As Go's `url.Values.Encode`.
  const encode = (fields) => {
    const escaped = (text) => encodeURIComponent(text).replace(/%20/g, '+').replace(/[!'()*]/g, (c) => '%' + c.charCodeAt(0).toString(16).toUpperCase());
    const byBytes = ([one], [other]) => (one < other ? -1 : one > other ? 1 : 0);
    const pairs = [...fields].sort(byBytes).flatMap(([name, value]) => [].concat(value).map((each) => `${escaped(name)}=${escaped(String(each))}`));
    return pairs.join('&');
  };

  class Selection {
    constructor(page, nodes, before, url) {
      const hidden = { [PAGE]: page, [NODES]: nodes, [BEFORE]: before };
      for (const key of Reflect.ownKeys(hidden)) Object.defineProperty(this, key, { value: hidden[key] });
      this.url = url;
    }

    // A selection made from this one, each node once.
    #push(nodes) { return new Selection(this[PAGE], [...new Set(nodes)], this, this.url); }
    #empty() { return new Selection(this[PAGE], [], null, this.url); }
    #matching(nodes, selector) { return native.filter(this[PAGE], [...nodes], String(selector)); }

    // The nodes that each node leads to, or those of them that match the selector.
    #map(step, filter) {
      const nodes = new Set(this[NODES].flatMap((node) => [...step(node)]));
      return this.#push(filter.length > 0 ? this.#matching(nodes, filter[0]) : nodes);
    }

    #elements(nodes) { return nodes.filter((node) => isElement(this[PAGE], node)); }

    // The nodes of a selector, searched in the whole page, of a selection or of an element.
    #nodesOf(argument) {
      if (typeof argument === 'string') return native.find(this[PAGE], 0, argument);
      const nodes = nodesIn(argument);
      if (nodes) return nodes;
      throw new Error(`invalid argument, cannot use a '${typeof argument}' as a selector`);
    }

    // A test whether a node is among those of a selector, selection, element or function.
    #tester(argument, method) {
      if (typeof argument === 'string') {
        const found = new Set(this.#matching(this[NODES], argument));
        return (node) => found.has(node);
      }
      const nodes = nodesIn(argument);
      if (nodes) return (node) => nodes.includes(node);
      if (typeof argument !== 'function') throw new Error(`the argument to ${method}() must be a function, a selector or a selection`);
      return (node, index) => Boolean(argument.call(argument, index, new Selection(this[PAGE], [node], null, this.url)));
    }

    add(argument) { return this.#push([...this[NODES], ...this.#nodesOf(argument)]); }

    find(argument) {
      const page = this[PAGE];
      if (typeof argument === 'string') return this.#push(this[NODES].flatMap((node) => native.find(page, node, argument)));
      return this.#push(this.#nodesOf(argument).filter((found) => this[NODES].some((node) => native.contains(page, node, found))));
    }

    closest(argument) {
      const page = this[PAGE];
      const lines = this[NODES].map((node) => [node, ...along(page, node, native.parent)]);
      const wanted = new Set(typeof argument === 'string' ? this.#matching(lines.flat(), argument) : this.#nodesOf(argument));
      return this.#push(lines.map((line) => line.find((node) => wanted.has(node))).filter((node) => node !== undefined));
    }

    has(argument) {
      const wanted = this.#nodesOf(argument);
      return this.#push(this[NODES].filter((node) => wanted.some((found) => native.contains(this[PAGE], node, found))));
    }

    not(argument) {
      const test = this.#tester(argument, 'not');
      return this.#push(this[NODES].filter((node, index) => !test(node, index)));
    }

    filter(argument) {
      const test = this.#tester(argument, 'filter');
      return this.#push(this[NODES].filter(test));
    }

    is(argument) {
      const test = this.#tester(argument, 'is');
      return this[NODES].some(test);
    }

    #siblings(step) { return (node) => this.#elements([...along(this[PAGE], node, step)]); }

    next(...filter) {
      return this.#map((node) => this.#siblings(native.next)(node).slice(0, 1), filter);
    }

    nextAll(...filter) { return this.#map(this.#siblings(native.next), filter); }

    prev(...filter) {
      return this.#map((node) => this.#siblings(native.previous)(node).slice(0, 1), filter);
    }

    prevAll(...filter) { return this.#map(this.#siblings(native.previous), filter); }

    parent(...filter) {
      return this.#map((node) => this.#siblings(native.parent)(node).slice(0, 1), filter);
    }

    parents(...filter) { return this.#map(this.#siblings(native.parent), filter); }

    siblings(...filter) {
      const page = this[PAGE];
      const others = (node) => {
        const parent = native.parent(page, node);
        return parent === undefined ? [] : native.children(page, parent).filter((other) => other !== node);
      };
      return this.#map((node) => this.#elements(others(node)), filter);
    }

    #until(step, [until, filter]) {
      const walked = this.#siblings(step);
      const isText = typeof until === 'string';
      const nodes = isText ? [] : nodesIn(until) || [];
      if (!isText && until !== undefined && until !== null && !nodesIn(until)) throw new Error(`invalid argument, cannot use a '${typeof until}' as a selector`);
      const isEnd = (node) => (isText ? this.#matching([node], until).length > 0 : nodes.includes(node));
      const before = (node) => {
        const line = walked(node);
        const end = line.findIndex(isEnd);
        return end < 0 ? line : line.slice(0, end);
      };
      return this.#map(before, filter === undefined ? [] : [filter]);
    }

    nextUntil(...untilAndFilter) { return this.#until(native.next, untilAndFilter); }
    prevUntil(...untilAndFilter) { return this.#until(native.previous, untilAndFilter); }
    parentsUntil(...untilAndFilter) { return this.#until(native.parent, untilAndFilter); }

    children(...filter) {
      return this.#map((node) => this.#elements(native.children(this[PAGE], node)), filter);
    }

    contents() { return this.#map((node) => native.children(this[PAGE], node), []); }
    size() { return this[NODES].length; }
    end() { return this[BEFORE] || this.#empty(); }

    eq(index) {
      const node = this[NODES].at(index);
      return node === undefined ? this.#empty() : this.#push([node]);
    }

    first() { return this.eq(0); }
    last() { return this.eq(-1); }
    slice(from, to) { return this.#push(this[NODES].slice(from, to)); }
    text() { return this[NODES].map((node) => native.text(this[PAGE], node)).join(''); }
    html() { return this[NODES].length > 0 ? native.html(this[PAGE], this[NODES][0]) : ''; }

    attr(name, otherwise) {
      const [node] = this[NODES];
      const value = node === undefined ? undefined : native.attribute(this[PAGE], node, String(name));
      return value === undefined ? otherwise : value;
    }

    val() {
      switch (this[NODES].length > 0 && native.name(this[PAGE], this[NODES][0])) {
        case 'input':
          return this.attr('value', ['radio', 'checkbox'].includes(this.attr('type')) ? 'on' : '');
        case 'button':
          return this.attr('value', '');
        case 'textarea':
          return this.html();
        case 'option':
          return valueOrHtml(this);
        case 'select': {
          const selected = this.first().find('option[selected]');
          return this.attr('multiple') === undefined ? valueOrHtml(selected) : selected.toArray().map(valueOrHtml);
        }
        default:
          return undefined;
      }
    }

    each(callback) {
      if (typeof callback !== 'function') throw new Error('the argument to each() must be a function');
      for (let index = 0; index < this[NODES].length; index++) {
        try {
          callback.call(callback, index, toElement(this.eq(index)));
        } catch (error) {
          throw new Error(`the function passed to each() failed: ${error}`);
        }
      }
      return this;
    }

    map(callback) {
      if (typeof callback !== 'function') throw new Error('the argument to map() must be a function');
      const values = [];
      this[NODES].forEach((node, index) => {
        try {
          values.push(callback.call(callback, index, new Selection(this[PAGE], [node], null, this.url)));
        } catch {
          // As in k6, it has no value.
        }
      });
      return values;
    }

    get(index) {
      if (index === undefined) return this.toArray().map(toElement);
      const size = this.size();
      return index < size && index > -size ? toElement(this.eq(index)) : undefined;
    }

    toArray() { return this[NODES].map((_, index) => this.eq(index)); }

    index(argument) {
      const [first] = this[NODES];
      if (argument === undefined) return first === undefined ? -1 : this.first().prevAll().size();
      if (typeof argument === 'string') return first === undefined ? -1 : native.find(this[PAGE], 0, argument).indexOf(first);
      const nodes = nodesIn(argument);
      return nodes && nodes.length > 0 ? this[NODES].indexOf(nodes[0]) : -1;
    }

    data(name) {
      const [node] = this[NODES];
      const known = node === undefined ? [] : native.attributes(this[PAGE], node);
      if (known.length === 0) return undefined;
      if (name !== undefined) return dataValue(this.attr('data-' + toAttributeName(String(name))));
      const entries = known.filter(([key]) => key.startsWith('data-') && key.length > 5);
      return Object.fromEntries(entries.map(([key, value]) => [toPropertyName(key.slice(5)), dataValue(value)]));
    }

    serializeArray() {
      const fields = this.is('form') ? this.find('input,select,textarea,keygen') : this.filter('input,select,textarea,keygen');
      const isSent = (field) => {
        const type = field.attr('type', '');
        return field.attr('name', '') !== ''
          && field.attr('disabled') !== 'disabled'
          && !['submit', 'button', 'reset', 'image', 'file'].includes(type)
          && (field.attr('checked') === 'checked' || !['checkbox', 'radio'].includes(type));
      };
      return fields.toArray().filter(isSent).map((field) => ({ name: field.attr('name'), value: field.val() }));
    }

    serializeObject() {
      return Object.fromEntries(this.serializeArray().map(({ name, value }) => [name, value]));
    }

    serialize() {
      return encode(new Map(this.serializeArray().filter(({ value }) => value !== undefined).map(({ name, value }) => [name, value])));
    }
  }

  const valueOrHtml = (selection) => selection.attr('value', selection.html());

  const INITIALISMS = new Set('ACL API ASCII CPU CSS DNS EOF ETA GPU GUID HTML HTTP HTTPS ID IP JSON LHS OS QPS RAM RHS RPC SLA SMTP SQL SSH TCP TLS TTL UDP UI UID UUID URI URL UTF8 VM XML XMPP XSRF XSS OAuth'.split(' '));

  // `some-url` as `someURL`.
  function toPropertyName(name) {
    const [first, ...rest] = name.split('-');
    const camel = (word) => (INITIALISMS.has(word.toUpperCase()) ? word.toUpperCase() : word.slice(0, 1).toUpperCase() + word.slice(1));
    return first + rest.map(camel).join('');
  }

  // `someURL` as `some-url`.
  function toAttributeName(name) {
    const words = [];
    let last = 0;
    for (let at = 1; at < name.length; at++) {
      if (!/\p{Lu}/u.test(name[at])) continue;
      const initialism = [5, 4, 3, 2, 1].map((length) => name.slice(last, last + length)).find((word) => INITIALISMS.has(word));
      words.push(initialism || name.slice(last, at));
      if (initialism) at += initialism.length - 1;
      last = at;
    }
    if (name.slice(last) !== '') words.push(name.slice(last));
    return words.join('_').toLowerCase().replace(/_/g, '-');
  }

  function dataValue(text) {
    if (text === undefined || ['', 'null', 'undefined'].includes(text)) return undefined;
    if (text === 'true' || text === 'false') return text === 'true';
    if (text[0] === '{' || text[0] === '[') {
      try {
        return JSON.parse(text);
      } catch {
        return text;
      }
    }
    return String(Number(text)) === text ? Number(text) : text;
  }

  // Elements are made on first use: most scripts need selections only, and each virtual user has its own.
  let made;
  const elements = () => (made ??= native.elements()({ native, PAGE, NODES, Selection, valueOrHtml }));
  const toElement = (selection) => (selection.size() === 0 ? undefined : elements().toElement(selection));

  // The nodes of a selection or element; undefined for anything else.
  function nodesIn(value) {
    return value instanceof Selection ? value[NODES] : made?.nodesOfElement(value);
  }

  const parseHTML = (text) => new Selection(native.parse(String(text)), [0], null, '');

  function html(response, selector) {
    if (response.body === null || response.body === undefined) {
      throw new Error("the body is null so we can't transform it to HTML - this likely was because of a request error getting the response");
    }
    const body = response.body instanceof ArrayBuffer ? new TextDecoder().decode(response.body) : String(response.body);
    const page = new Selection(native.parse(body), [0], null, response.url);
    return selector === undefined ? page : page.find(String(selector));
  }

  function resolved(response, reference) {
    const url = elements().resolve(response.url, reference);
    if (url === undefined) throw new Error(`parse ${JSON.stringify(reference)}: invalid URL`);
    return url;
  }

  function clickLink(response, { selector = 'a[href]', params = null } = {}) {
    const link = html(response, selector);
    if (link.size() === 0) throw new Error(`no element found for selector '${selector}' in response '${response.url}'`);
    const href = link.attr('href');
    if (href === undefined) throw new Error(`no valid href attribute value found on element '${selector}' in response '${response.url}'`);
    return native.request('GET', resolved(response, href), undefined, params);
  }

  function submitForm(response, { formSelector = 'form', submitSelector = '[type="submit"]', fields = {}, params = null } = {}) {
    const form = html(response, formSelector);
    if (form.size() === 0) throw new Error(`no form found for selector '${formSelector}' in response '${response.url}'`);
    const method = form.attr('method', 'GET').toUpperCase();
    const action = form.attr('action');
    const url = action === undefined ? response.url : resolved(response, action);
    const values = form.serializeObject();
    const submit = form.find(submitSelector);
    if (submit.attr('name') !== undefined && submit.val() !== undefined) values[submit.attr('name')] = submit.val();
    // As k6 writes a list selected by the page.
    const isForBody = method !== 'GET';
    for (const name of Object.keys(values)) if (isForBody && Array.isArray(values[name])) values[name] = `[${values[name].join(' ')}]`;
    Object.assign(values, fields);
    if (isForBody) return native.request(method, url, values, params);
    const query = encode(Object.entries(values).map(([name, value]) => [name, String(value)]));
    const [, address, fragment] = /^([^?#]*)(?:\?[^#]*)?(#.*)?$/s.exec(url);
    return native.request(method, `${address}${query && '?'}${query}${fragment || ''}`, null, params);
  }

  return { parseHTML, html, clickLink, submitForm };
}
