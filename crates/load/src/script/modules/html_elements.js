// The elements of `k6/html`: the methods of each tag.
(shared) => {
  'use strict';
  const { native, PAGE, NODES, Selection, valueOrHtml } = shared;
  const SELECTION = Symbol('selection');

  // Texts that are no addresses in Go.
  const isBroken = (url) => /[\x00-\x1f\x7f]/.test(url) || /%(?![0-9a-fA-F]{2})/.test(url.replace(/\?[^#]*/, ''));

  // The parts of an address, each undefined if missing.
  const partsOf = (url) => {
    const [, scheme, authority, path, query, fragment] = /^(?:([a-zA-Z][a-zA-Z0-9+.-]*):)?(?:\/\/([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?$/s.exec(url) || [];
    return { scheme: scheme?.toLowerCase(), authority, path: path || '', query, fragment };
  };

  // From the root on, as in Go.
  const withoutDots = (path) => {
    if (path === '') return '';
    const kept = [];
    const steps = path.split('/');
    steps.forEach((step, index) => {
      if (step === '..') kept.length > 1 && kept.pop();
      if (step === '..' || step === '.') index === steps.length - 1 && kept.push('');
      else kept.push(step);
    });
    return '/' + kept.join('/').replace(/^\//, '');
  };

  // RFC 3986, 5.2; undefined if the text is no address.
  const resolve = (base, reference) => {
    if (isBroken(base) || isBroken(reference)) return undefined;
    const from = partsOf(base);
    const to = partsOf(reference);
    if (to.scheme !== undefined && to.authority === undefined && !to.path.startsWith('/')) return reference;
    if (to.scheme === undefined) {
      to.scheme = from.scheme;
      if (to.authority === undefined) {
        to.authority = from.authority;
        if (to.path === '') {
          to.path = from.path;
          if (to.query === undefined) to.query = from.query;
        } else if (!to.path.startsWith('/')) {
          to.path = from.path === '' ? '/' + to.path : from.path.slice(0, from.path.lastIndexOf('/') + 1) + to.path;
        }
      }
    }
    const part = (before, text, after) => (text === undefined ? '' : before + text + after);
    return part('', to.scheme, ':') + part('//', to.authority, '') + withoutDots(to.path) + part('?', to.query, '') + part('#', to.fragment, '');
  };

  class Element {
    constructor(selection) { Object.defineProperty(this, SELECTION, { value: selection }); }
  }

  // Short names for the methods below.
  const pageOf = (element) => element[SELECTION][PAGE];
  const nodeOf = (element) => element[SELECTION][NODES][0];
  // As in k6, only an element without methods of its own tag can be handed to another.
  const isPlain = (value) => value instanceof Element && Object.getPrototypeOf(value) === Element.prototype;
  const nodesOfElement = (value) => (isPlain(value) ? value[SELECTION][NODES] : undefined);
  const attributeOf = (element, name) => native.attribute(pageOf(element), nodeOf(element), name);
  const textOf = (element, name) => attributeOf(element, name) ?? '';
  const isPresent = (element, name) => attributeOf(element, name) !== undefined;
  const elementsIn = (selection) => selection.toArray().map(toElement);
  const find = (element, selector) => element[SELECTION].find(selector);
  const findAll = (element, selector) => elementsIn(find(element, selector));
  // The first element in the page that matches.
  const findInPage = (element, selector) => element[SELECTION].parents().last().find(selector);
  const nodeAt = (element, node) => toElement(new Selection(pageOf(element), node === undefined ? [] : [node], null, element[SELECTION].url));

  const number = (element, name, otherwise) => {
    const text = attributeOf(element, name);
    return text !== undefined && /^[+-]?[0-9]+$/.test(text) ? Number(text) : otherwise;
  };
  const urlOf = (element, name, otherwise = '') => {
    const { url } = element[SELECTION];
    if (url === '') return textOf(element, name);
    const value = attributeOf(element, name);
    return (value === undefined ? undefined : resolve(url, value)) ?? otherwise;
  };
  const formOf = (element) => {
    const around = element[SELECTION].closest('form');
    if (around.size() > 0) return around;
    const id = textOf(element, 'form');
    return id === '' ? undefined : findInPage(element, '#' + id);
  };
  const labelsOf = (element) => {
    const around = element[SELECTION].closest('label');
    const id = textOf(element, 'id');
    return elementsIn(id === '' ? around : around.add(findInPage(element, `label[for="${id}"]`)));
  };
  const ofForm = (element, name) => attributeOf(element, 'form' + name) ?? formOf(element)?.attr(name);
  const indexAmong = (element, parents, selector, otherwise) => {
    const around = element[SELECTION].parents(parents);
    return around.size() === 0 ? otherwise : around.find(selector).index(element[SELECTION]);
  };
  const decoded = (text = '') => {
    try {
      return decodeURIComponent(text);
    } catch {
      return '';
    }
  };
  const words = (text) => (text === '' ? [] : text.split(' '));
  const namespace = (prefix) => ({ svg: 'http://www.w3.org/2000/svg', math: 'http://www.w3.org/1998/Math/MathML' })[prefix] || 'http://www.w3.org/1999/xhtml';

  // Kinds of methods that read one attribute.
  const text = (name) => function () { return textOf(this, name); };
  const url = (name) => function () { return urlOf(this, name); };
  const flag = (name) => function () { return isPresent(this, name); };
  const int = (name, otherwise = 0) => function () { return number(this, name, otherwise); };
  const oneOf = (name, otherwise, ...others) => function () {
    const value = textOf(this, name);
    return others.includes(value) ? value : otherwise;
  };
  const always = (value) => () => value;
  const crossOrigin = function () {
    const value = attributeOf(this, 'crossorigin');
    return ['anonymous', 'use-credentials'].includes(value) ? value : undefined;
  };
  const referrerPolicy = oneOf('referrerpolicy', '', 'no-referrer', 'no-referrer-when-downgrade', 'origin', 'origin-when-cross-origin', 'unsafe-url');
  const autocomplete = oneOf('autocomplete', 'on', 'off');
  const encoding = oneOf('enctype', 'application/x-www-form-urlencoded', 'multipart/form-data', 'text/plain');
  const form = function () { const found = formOf(this); return found && toElement(found.eq(0)); };
  const labels = function () { return labelsOf(this); };
  const content = function () { return this.textContent(); };
  const all = (selector) => function () { return findAll(this, selector); };

  class Attribute {
    constructor(owner, [name, value, prefix]) {
      this.owner_element = owner;
      this.name = name;
      this.value = value;
      Object.defineProperty(this, 'prefix', { value: () => prefix });
    }
    namespaceURI() { return namespace(this.prefix()); }
    localName() { return this.name; }
  }

  Object.assign(Element.prototype, {
    getAttribute(name) { return attributeOf(this, String(name)); },
    getAttributeNode(name) { return this.attributes()[name]; },
    hasAttribute(name) { return isPresent(this, String(name)); },
    hasAttributes() { return native.attributes(pageOf(this), nodeOf(this)).length > 0; },
    attributes() {
      return Object.fromEntries(native.attributes(pageOf(this), nodeOf(this)).map((known) => [known[0], new Attribute(this, known)]));
    },
    toString() { return this.nodeType() === 1 ? '[object html.Node]' : `[object ${this.nodeName()}]`; },
    hasChildNodes() { return native.children(pageOf(this), nodeOf(this)).length > 0; },
    textContent() { return this[SELECTION].text(); },
    id: text('id'),
    isEqualNode(other) { return isPlain(other) && other.innerHTML() === this.innerHTML(); },
    isSameNode(other) { return isPlain(other) && pageOf(other) === pageOf(this) && nodeOf(other) === nodeOf(this); },
    selection() { return this[SELECTION]; },
    getElementsByClassName(name) { return findAll(this, '.' + name); },
    getElementsByTagName(name) { return findAll(this, String(name)); },
    querySelector(selector) { return toElement(find(this, String(selector))); },
    querySelectorAll(selector) { return findAll(this, String(selector)); },
    nodeName() { return native.name(pageOf(this), nodeOf(this)); },
    firstChild() { return nodeAt(this, native.children(pageOf(this), nodeOf(this))[0]); },
    lastChild() { return nodeAt(this, native.children(pageOf(this), nodeOf(this)).at(-1)); },
    firstElementChild() { return toElement(this[SELECTION].children().first()); },
    lastElementChild() { return toElement(this[SELECTION].children().last()); },
    previousSibling() { return nodeAt(this, native.previous(pageOf(this), nodeOf(this))); },
    nextSibling() { return nodeAt(this, native.next(pageOf(this), nodeOf(this))); },
    previousElementSibling() { return toElement(this[SELECTION].prev()); },
    nextElementSibling() { return toElement(this[SELECTION].next()); },
    parentNode() { return nodeAt(this, native.parent(pageOf(this), nodeOf(this))); },
    parentElement() { return toElement(this[SELECTION].parent()); },
    childNodes() { return elementsIn(this[SELECTION].contents()); },
    children() { return elementsIn(this[SELECTION].children()); },
    childElementCount() { return this[SELECTION].children().size(); },
    classList() { return textOf(this, 'class').split(/\s+/).filter((name) => name !== ''); },
    className() { return attributeOf(this, 'class'); },
    lang() { return attributeOf(this, 'lang'); },
    ownerDocument() { return nodeAt(this, 0); },
    namespaceURI() { return native.namespace(pageOf(this), nodeOf(this)); },
    isDefaultNamespace() { return this.namespaceURI() === namespace(''); },
    innerHTML() { return this[SELECTION].html(); },
    nodeType() { return native.type(pageOf(this), nodeOf(this)); },
    nodeValue() { return [3, 8].includes(this.nodeType()) ? this.textContent() : undefined; },
    contains(other) { return isPlain(other) && native.contains(pageOf(this), nodeOf(this), nodeOf(other)); },
    matches(selector) { return this[SELECTION].is(String(selector)); },
  });

  const DEFAULT_PORTS = { http: '80', https: '443', ftp: '21' };
  const withoutBrackets = (hostname) => hostname.replace(/^\[|\]$/g, '');
  const linkOf = (element) => {
    const href = attributeOf(element, 'href');
    const { authority = '', ...parts } = partsOf((href !== undefined && resolve(element[SELECTION].url, href)) || '');
    const [, user, password, host, hostname, port] = /^(?:([^:@]*)(?::([^@]*))?@)?((\[[^\]]*\]|[^:]*)(?::(.*))?)$/.exec(authority) || [];
    return { ...parts, user, password, host: host || '', hostname: hostname || '', port: port || '' };
  };
  const href = {
    download: text('download'),
    referrerPolicy,
    rel: text('rel'),
    href: url('href'),
    target: text('target'),
    type: text('type'),
    accessKey: text('accesskey'),
    hrefLang: text('hreflang'),
    toString: url('href'),
    hash() { const { fragment } = linkOf(this); return fragment ? '#' + fragment : ''; },
    host() { const { host, hostname, port, scheme } = linkOf(this); return port !== '' && port === DEFAULT_PORTS[scheme] ? withoutBrackets(hostname) : host; },
    hostname() { const { hostname, port } = linkOf(this); return port === '' ? hostname : withoutBrackets(hostname); },
    port() { return linkOf(this).port; },
    username() { return decoded(linkOf(this).user); },
    password() { return decoded(linkOf(this).password); },
    origin() { const { scheme, host } = linkOf(this); return !scheme ? '' : scheme === 'file' ? this.href() : `${scheme}://${host}`; },
    pathname() { return decoded(linkOf(this).path); },
    protocol() { return linkOf(this).scheme || ':'; },
    relList() { return words(textOf(this, 'rel')); },
    search() { const { query } = linkOf(this); return query ? '?' + query : ''; },
    text: content,
  };
  const media = {
    autoplay: flag('autoplay'), controls: flag('controls'), loop: flag('loop'), muted: flag('muted'),
    preload: oneOf('preload', 'auto', 'metadata', 'none'),
    src: url('src'), crossOrigin, currentSrc: text('src'), defaultMuted: flag('muted'), mediaGroup: text('mediagroup'),
    textTracks: all('track'),
  };
  const field = {
    form,
    formAction() {
      const action = ofForm(this, 'action');
      const { url: address } = this[SELECTION];
      if (address === '') return action ?? '';
      return action ? resolve(address, action) ?? action : address;
    },
    formEnctype() {
      const type = ofForm(this, 'enctype');
      return ['multipart/form-data', 'text/plain'].includes(type) ? type : 'application/x-www-form-urlencoded';
    },
    formMethod() { return (ofForm(this, 'method') ?? '').toLowerCase() === 'post' ? 'post' : 'get'; },
    formNoValidate() { return ofForm(this, 'novalidate') !== undefined; },
    formTarget() { return ofForm(this, 'target') ?? ''; },
    labels,
    name: text('name'),
  };
  const changed = { cite: text('cite'), datetime: text('datetime') };
  const section = { rows: all('tr') };
  const cell = {
    colSpan: int('colspan', 1), rowSpan: int('rowspan', 1), headers: text('headers'),
    cellIndex() { return indexAmong(this, 'tr', 'th,td', -1); },
  };
  const progress = (element, otherwise) => {
    const value = Number(attributeOf(element, 'value') ?? NaN);
    return value >= 0 ? value / element.max() : otherwise;
  };
  const firstChild = (selector) => function () { return toElement(this[SELECTION].children(selector)); };

  const METHODS = {
    a: href,
    area: href,
    audio: media,
    base: { href() { return urlOf(this, 'href', this[SELECTION].url); }, target: text('target') },
    button: {
      ...field, accessKey: text('accesskey'), autofocus: flag('autofocus'), disabled: flag('disabled'), tabIndex: int('tabindex'),
      type: oneOf('type', 'submit', 'button', 'menu', 'reset'),
      value() { return valueOrHtml(this[SELECTION]); },
    },
    canvas: { width: int('width', 150), height: int('height', 150) },
    data: { value: text('value') },
    datalist: { options: all('option') },
    del: changed,
    embed: { height: text('height'), width: text('width'), src: text('src'), type: text('type') },
    fieldset: { disabled: flag('disabled'), name: text('name'), form, type: always('fieldset'), elements: all('input,select,button,textarea'), validity: always(undefined) },
    form: {
      action: url('action'), name: text('name'), target: text('target'), enctype: encoding, encoding, acceptCharset: text('accept-charset'),
      autocomplete, noValidate: flag('novalidate'), elements: all('input,select,button,textarea,fieldset'),
      length() { return find(this, 'input,select,button,textarea,fieldset').size(); },
      method() { return textOf(this, 'method') === 'post' ? 'post' : 'get'; },
    },
    iframe: { allowfullscreen: flag('allowfullscreen'), referrerPolicy, height: text('height'), width: text('width'), name: text('name'), src: url('src') },
    img: {
      currentSrc: url('src'), sizes: text('sizes'), srcset: text('srcset'), alt: text('alt'), crossOrigin, height: int('height'), width: int('width'),
      isMap: flag('ismap'), name: text('name'), src: url('src'), useMap: text('usemap'), referrerPolicy,
    },
    input: {
      ...field, name: text('name'), tabIndex: int('tabindex'),
      type: oneOf('type', 'text', 'button', 'checkbox', 'color', 'date', 'datetime-local', 'email', 'file', 'hidden', 'image', 'month', 'number', 'password', 'radio', 'range', 'reset', 'search', 'submit', 'tel', 'time', 'url', 'week'),
      disabled: flag('disabled'), autofocus: flag('autofocus'), required: flag('required'), value: text('value'), checked: flag('checked'),
      defaultChecked: flag('checked'), alt: text('alt'), src: url('src'), height: text('height'), width: text('width'), accept: text('accept'),
      autocomplete, maxLength: int('maxlength', -1), size: int('size'), pattern: text('pattern'), placeholder: text('placeholder'),
      readonly: flag('readonly'), min: text('min'), max: text('max'), defaultValue: text('value'), dirName: text('dirname'),
      accessKey: text('accesskey'), multiple: flag('multiple'), step: text('step'),
      list() {
        const id = textOf(this, 'list');
        if (id === '' || ['hidden', 'checkbox', 'radio', 'file', 'button'].includes(textOf(this, 'type'))) return undefined;
        return toElement(findInPage(this, `datalist[id="${id}"]`).eq(0));
      },
    },
    ins: changed,
    keygen: {
      autofocus: flag('autofocus'), challenge: text('challenge'), disabled: flag('disabled'), keytype: oneOf('keytype', 'RSA', 'DSA', 'EC'),
      name: text('name'), type: always('keygen'), form, labels,
    },
    label: {
      htmlFor: text('for'), form,
      control() { return isPresent(this, 'for') ? toElement(findInPage(this, '#' + textOf(this, 'for')).eq(0)) : undefined; },
    },
    legend: { accessKey: text('accesskey'), form },
    li: { value: int('value'), type: oneOf('type', '', '1', 'a', 'A', 'i', 'I', 'disc', 'square', 'circle') },
    link: {
      crossOrigin, referrerPolicy, href: url('href'), hreflang: text('hreflang'), media: text('media'), rel: text('rel'), target: text('target'), type: text('type'),
      relList() { return words(textOf(this, 'rel')); },
    },
    map: {
      name: text('name'), areas: all('area'),
      images() {
        const id = attributeOf(this, 'id');
        return id === undefined ? [] : elementsIn(findInPage(this, `img[usemap="#${id}"],object[usemap="#${id}"]`));
      },
    },
    meta: { content: text('content'), name: text('name'), httpEquiv: oneOf('http-equiv', 'content-type', 'default-style', 'refresh') },
    meter: { min: int('min'), max: int('max'), high: int('high'), low: int('low'), optimum: int('optimum'), labels },
    object: {
      data: url('data'), height: text('height'), name: text('name'), type: text('type'), tabIndex: int('tabindex'), typeMustMatch: flag('typemustmatch'),
      useMap: text('usemap'), width: text('width'), form,
    },
    ol: { reversed: flag('reversed'), start: int('start'), type: oneOf('type', '1', 'a', 'A', 'i', 'I') },
    optgroup: { disabled: flag('disabled'), label: text('label') },
    option: {
      defaultSelected: flag('selected'), selected: flag('selected'),
      disabled() { return isPresent(this, 'disabled') || this[SELECTION].parents('optgroup').attr('disabled') !== undefined; },
      form() {
        const around = this[SELECTION].parents('form');
        if (around.size() > 0) return toElement(around.first());
        const select = this[SELECTION].parents('select');
        const id = select.attr('form');
        return id === undefined ? undefined : toElement(select.parents().last().find('form#' + id).first());
      },
      index() { return indexAmong(this, 'select,datalist', 'option', 0); },
      label() { return attributeOf(this, 'label') ?? this.textContent(); },
      text: content,
      value() { return valueOrHtml(this[SELECTION]); },
    },
    output: { htmlFor: text('for'), name: text('name'), type: always('output'), form, labels, value: content, defaultValue: content },
    param: { name: text('name'), value: text('value') },
    pre: { name: text('name'), value: text('value') },
    progress: {
      max() { const max = Number(attributeOf(this, 'max') ?? NaN); return max >= 0 ? max : 1; },
      value() { return progress(this, 0); },
      position() { return progress(this, -1); },
      labels,
    },
    quote: { cite: text('cite') },
    script: {
      crossOrigin: text('crossorigin'), type: text('type'), src: url('src'), charset: text('charset'), async: flag('async'), defer: flag('defer'),
      noModule: flag('nomodule'), text: content,
    },
    select: {
      autofocus: flag('autofocus'), disabled: flag('disabled'), multiple: flag('multiple'), name: text('name'), required: flag('required'), tabIndex: int('tabindex'),
      form, labels, options: all('option'), selectedOptions: all('option[selected]'),
      length() { return find(this, 'option').size(); },
      selectedIndex() {
        const selected = find(this, 'option[selected]');
        return selected.size() === 0 ? -1 : find(this, 'option').index(selected);
      },
      size() { return isPresent(this, 'multiple') ? 4 : 1; },
      type() { return isPresent(this, 'multiple') ? 'select-multiple' : 'select'; },
      value() {
        const selected = find(this, 'option[selected]');
        return selected.size() === 0 ? '' : valueOrHtml(selected.first());
      },
    },
    source: { keySystem: text('keysystem'), media: text('media'), sizes: text('sizes'), src: url('src'), srcset: text('srcset'), type: text('type') },
    style: { media: text('media'), type() { return textOf(this, 'type') || 'text/css'; } },
    table: {
      sortable: flag('sortable'), caption: firstChild('caption'), tHead: firstChild('thead'), tFoot: firstChild('tfoot'), rows: all('tr'), tBodies: all('tbody'),
    },
    thead: section,
    tfoot: section,
    tbody: section,
    tr: {
      cells: all('th,td'),
      rowIndex() { return indexAmong(this, 'table', 'tr', -1); },
      sectionRowIndex() { return indexAmong(this, 'thead,tbody,tfoot', 'tr', -1); },
    },
    col: { span() { return Math.max(1, number(this, 'span', 1)); } },
    td: cell,
    th: { ...cell, abbr: text('abbr'), scope: oneOf('scope', '', 'row', 'col', 'colgroup', 'rowgroup'), sorted: flag('sorted') },
    textarea: {
      type: always('textarea'), value: text('value'), defaultValue: text('value'), placeholder: text('placeholder'), rows: int('rows'), cols: int('cols'),
      maxLength: int('maxlength'), tabIndex: int('tabindex'), accessKey: text('accesskey'), readOnly: flag('readonly'), required: flag('required'),
      autocomplete, autocapitalize: oneOf('autocapitalize', 'sentences', 'none', 'off', 'characters', 'words'), wrap: oneOf('wrap', 'soft', 'hard', 'off'),
      form, labels,
      length() { return unescape(encodeURIComponent(textOf(this, 'value'))).length; },
    },
    time: { datetime: text('datetime') },
    title: { text: content },
    track: {
      kind: oneOf('kind', 'subtitle', 'captions', 'descriptions', 'chapters', 'metadata'), src: url('src'), srclang: text('srclang'), label: text('label'),
      default: flag('default'),
    },
    ul: { type: text('type') },
    video: media,
  };

  const classes = new Map();
  // The first element of a selection; undefined when there is none.
  function toElement(selection) {
    if (selection.size() === 0) return undefined;
    const name = native.name(selection[PAGE], selection[NODES][0]);
    if (!Object.hasOwn(METHODS, name)) return new Element(selection);
    if (!classes.has(name)) {
      const made = class extends Element {};
      Object.assign(made.prototype, METHODS[name]);
      classes.set(name, made);
    }
    return new (classes.get(name))(selection);
  }

  return { toElement, nodesOfElement, resolve };
}
