// URL and URLSearchParams (https://url.spec.whatwg.org), which the library `url` of jslib.k6.io has.
(parse, part, change, pairs, serialized) => {
  /** The URL that each URLSearchParams belongs to, if any. */
  const linked = new WeakMap();

  const need = (given, count) => {
    if (given.length < count) throw new TypeError('Not enough arguments');
  };

  class URLSearchParams {
    #pairs = [];
    constructor(init = '') {
      if (typeof init === 'object' && init !== null) {
        const isList = typeof init[Symbol.iterator] === 'function';
        for (const pair of isList ? init : Object.entries(init)) {
          const both = [...pair];
          if (both.length !== 2) throw new TypeError('Expected sequence with length 2');
          this.#pairs.push(both.map(String));
        }
      } else {
        this.#pairs = pairs(String(init).replace(/^\?/, ''));
      }
    }
    #changed() {
      const url = linked.get(this);
      if (url) url.search = this.toString();
    }
    /** Replaces the parameters after a change of the address. */
    static reload(params, query) { params.#pairs = pairs(query.replace(/^\?/, '')); }
    get size() { return this.#pairs.length; }
    append(name, value) {
      need(arguments, 2);
      this.#pairs.push([String(name), String(value)]);
      this.#changed();
    }
    delete(name, value) {
      need(arguments, 1);
      const goes = ([key, found]) =>
        key === String(name) && (value === undefined || found === String(value));
      this.#pairs = this.#pairs.filter((pair) => !goes(pair));
      this.#changed();
    }
    get(name) {
      need(arguments, 1);
      const found = this.#pairs.find(([key]) => key === String(name));
      return found ? found[1] : null;
    }
    getAll(name) {
      need(arguments, 1);
      return this.#pairs.filter(([key]) => key === String(name)).map(([, value]) => value);
    }
    has(name, value) {
      need(arguments, 1);
      return this.#pairs.some(
        ([key, found]) => key === String(name) && (value === undefined || found === String(value)),
      );
    }
    set(name, value) {
      need(arguments, 2);
      const at = this.#pairs.findIndex(([key]) => key === String(name));
      const rest = this.#pairs.filter(([key], place) => place === at || key !== String(name));
      if (at < 0) rest.push([String(name), String(value)]);
      else rest[at] = [String(name), String(value)];
      this.#pairs = rest;
      this.#changed();
    }
    sort() {
      this.#pairs.sort(([one], [other]) => (one < other ? -1 : Number(one > other)));
      this.#changed();
    }
    forEach(callback, self) {
      for (const [name, value] of this) callback.call(self, value, name, this);
    }
    *entries() { for (let at = 0; at < this.#pairs.length; at += 1) yield [...this.#pairs[at]]; }
    *keys() { for (const [name] of this) yield name; }
    *values() { for (const [, value] of this) yield value; }
    [Symbol.iterator]() { return this.entries(); }
    toString() { return serialized(this.#pairs); }
    get [Symbol.toStringTag]() { return 'URLSearchParams'; }
  }
  const { reload } = URLSearchParams;
  delete URLSearchParams.reload;

  class URL {
    #href;
    #params;
    constructor(address, base) {
      need(arguments, 1);
      const href = parse(String(address), base === undefined ? undefined : String(base));
      if (href === undefined) throw new TypeError(`Invalid URL: ${address}`);
      this.#href = href;
      this.#params = new URLSearchParams(this.search);
      linked.set(this.#params, this);
    }
    static canParse(address, base) {
      return parse(String(address), base === undefined ? undefined : String(base)) !== undefined;
    }
    static read(url, name) { return part(url.#href, name); }
    static write(url, name, value) {
      url.#href = change(url.#href, name, String(value));
      if (name === 'search' || name === 'href') reload(url.#params, url.search);
    }
    get href() { return this.#href; }
    set href(address) {
      const href = parse(String(address), undefined);
      if (href === undefined) throw new TypeError(`Invalid URL: ${address}`);
      this.#href = href;
      reload(this.#params, this.search);
    }
    get origin() { return part(this.#href, 'origin'); }
    get searchParams() { return this.#params; }
    toString() { return this.#href; }
    toJSON() { return this.#href; }
    get [Symbol.toStringTag]() { return 'URL'; }
  }
  const { read, write } = URL;
  delete URL.read;
  delete URL.write;
  for (const name of [
    'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash',
  ]) {
    Object.defineProperty(URL.prototype, name, {
      enumerable: true,
      configurable: true,
      get() {
        return read(this, name);
      },
      set(value) {
        write(this, name, value);
      },
    });
  }
  return { URL, URLSearchParams };
}
