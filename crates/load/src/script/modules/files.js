// `k6/experimental/fs` and `k6/experimental/csv`; `native` has the functions of the engine.
(native) => {
  'use strict';
  const problem = (name, message) => Object.assign(new Error(message), { name });
  const isNothing = (value) => value === null || value === undefined;
  const SeekMode = { Start: 0, Current: 1, End: 2 };

  class File {
    #size;
    #at = 0;

    constructor(path, size) {
      this.path = path;
      this.#size = size;
    }

    async stat() {
      return { name: this.path.slice(this.path.lastIndexOf('/') + 1), size: this.#size };
    }

    // Reads the rest of the file and returns the result of `use`.
    rest(use) {
      const at = this.#at;
      this.#at = this.#size;
      return use(at);
    }

    async read(into) {
      if (isNothing(into)) throw problem('TypeError', 'read() failed; reason: into argument cannot be null or undefined');
      if (into.constructor !== Uint8Array) throw problem('TypeError', 'read() failed; reason: into argument must be a Uint8Array');
      if (this.#at === this.#size) return null;
      const bytes = new Uint8Array(native.read(this.path, this.#at, into.buffer.byteLength));
      new Uint8Array(into.buffer).set(bytes);
      this.#at += bytes.length;
      return bytes.length;
    }

    async seek(offset, whence) {
      for (const [name, value] of [['offset', offset], ['whence', whence]]) {
        if (isNothing(value)) throw problem('TypeError', `seek() failed; reason: the ${name} argument cannot be null or undefined`);
        if (!Number.isInteger(value)) throw problem('TypeError', `seek() failed; reason: the ${name} argument must be a number`);
      }
      if (whence === SeekMode.Start && offset < 0) throw problem('TypeError', 'offset cannot be negative when using SeekModeStart');
      if (whence === SeekMode.End && offset > 0) throw problem('TypeError', 'offset cannot be positive when using SeekModeEnd');
      // As in k6, the end is the last byte.
      const from = [0, this.#at, this.#size - 1][whence];
      if (from === undefined) throw problem('TypeError', 'seek() failed; reason: the whence argument must be a SeekMode');
      if (from + offset < 0) throw problem('TypeError', 'seeking before start of file');
      if (from + offset > this.#size) throw problem('TypeError', 'seeking beyond end of file');
      this.#at = from + offset;
      return this.#at;
    }
  }

  async function open(path) {
    if (!native.isInit()) throw problem('ForbiddenError', 'open() failed; reason: opening a file is allowed only in the Init context');
    if (isNothing(path)) throw problem('TypeError', 'open() failed; reason: path cannot be null or undefined');
    if (String(path) === '') throw problem('TypeError', 'open() failed; reason: path cannot be empty');
    const [found, size] = native.open(String(path));
    return new File(found, size);
  }

  // The selected lines of a file, as an array that all virtual users share.
  function rows(file, options) {
    if (!(file instanceof File)) throw new Error('first argument expected to be a fs.File instance');
    const { delimiter = ',', skipFirstLine = false, fromLine, toLine, asObjects = false } = options || {};
    if (String(delimiter).length !== 1) throw new Error('delimiter must be a single character');
    if (asObjects && skipFirstLine) throw new Error("the 'header' option cannot be enabled when 'skipFirstLine' is true");
    if (asObjects && fromLine > 0) throw new Error("the 'header' option cannot be enabled when 'fromLine' is set to a value greater than 0");
    if (fromLine < 0) throw new Error(`the 'fromLine' option must be greater than or equal to 0; got ${fromLine}`);
    if (toLine < 0) throw new Error(`the 'toLine' option must be greater than or equal to 0; got ${toLine}`);
    if (fromLine >= toLine) throw new Error('fromLine must be less than or equal to toLine');
    const first = fromLine > 0 ? fromLine : Number(Boolean(skipFirstLine || asObjects));
    const last = toLine > 0 ? toLine : -1;
    return file.rest((at) => native.rows(file.path, at, String(delimiter), first, last, Boolean(asObjects)));
  }

  class Parser {
    #rows;
    #at = 0;

    constructor(file, options) {
      if (!native.isInit()) throw new Error('csv Parser constructor must be called in the init context');
      if (isNothing(file)) throw new Error('csv Parser constructor takes at least one non-nil source argument');
      this.#rows = rows(file, options);
    }

    async next() {
      const at = this.#at++;
      return at < this.#rows.length ? { done: false, value: this.#rows[at] } : { done: true, value: [] };
    }
  }

  return {
    fs: { open, SeekMode },
    csv: { parse: async (file, options) => rows(file, options), Parser },
  };
}
