// `TextEncoder` and `TextDecoder`, as in browsers; UTF-8 only. `native` has the functions of the engine.
(native) => {
  'use strict';
  const bytesOf = (input) => ArrayBuffer.isView(input)
    ? new Uint8Array(input.buffer, input.byteOffset, input.byteLength) : new Uint8Array(input);

  // A surrogate without its other half.
  const HALF = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g;

  class TextEncoder {
    get encoding() { return 'utf-8'; }

    encode(text = '') {
      return new Uint8Array(native.encode(String(text).replace(HALF, '\uFFFD')));
    }

    encodeInto(text, into) {
      let read = 0;
      let written = 0;
      for (const c of String(text)) {
        const bytes = this.encode(c);
        if (written + bytes.length > into.length) break;
        into.set(bytes, written);
        written += bytes.length;
        read += c.length;
      }
      return { read, written };
    }
  }

  class TextDecoder {
    #left = new Uint8Array(0);
    #isBegun = false;

    constructor(label = 'utf-8', { fatal = false, ignoreBOM = false } = {}) {
      if (!['utf-8', 'utf8', 'unicode-1-1-utf-8'].includes(String(label).trim().toLowerCase())) {
        throw new RangeError(`the encoding ${label} is not supported`);
      }
      Object.defineProperties(this, {
        encoding: { value: 'utf-8', enumerable: true },
        fatal: { value: Boolean(fatal), enumerable: true },
        ignoreBOM: { value: Boolean(ignoreBOM), enumerable: true },
      });
    }

    decode(input = new Uint8Array(0), { stream = false } = {}) {
      const more = bytesOf(input);
      const bytes = new Uint8Array(this.#left.length + more.length);
      bytes.set(this.#left);
      bytes.set(more, this.#left.length);
      const [text, used, isValid] = native.decode(bytes.buffer, Boolean(stream));
      this.#left = bytes.slice(used);
      if (this.fatal && !isValid) {
        this.#left = new Uint8Array(0);
        this.#isBegun = false;
        throw new TypeError('the bytes are not UTF-8');
      }
      const isFirst = !this.#isBegun;
      this.#isBegun = stream && (this.#isBegun || text.length > 0);
      return isFirst && !this.ignoreBOM && text.startsWith('\uFEFF') ? text.slice(1) : text;
    }
  }

  return { TextEncoder, TextDecoder };
}
