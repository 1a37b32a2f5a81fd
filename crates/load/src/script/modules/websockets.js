// k6/websockets: the classes WebSocket and Blob.
(function (native) {
  'use strict';

  const EVENTS = ['open', 'message', 'error', 'close', 'ping', 'pong'];
  const CONNECTING_OR_OPEN = 1;
  const NORMAL_CLOSURE = 1000;
  const MAX_REASON_BYTES = 123;

  function isNullish(value) {
    return value === undefined || value === null;
  }

  class Blob {
    #bytes;
    #type = '';

    constructor(parts, options) {
      if (parts !== undefined && !Array.isArray(parts)) {
        throw new Error('failed to process [blobParts]: an array is expected');
      }
      const chunks = (parts ?? []).map(Blob.#chunk);
      this.#bytes = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
      let at = 0;
      for (const chunk of chunks) {
        this.#bytes.set(chunk, at);
        at += chunk.length;
      }
      if (options === undefined) return;
      if (options === null || typeof options !== 'object') throw new Error('[options] must be an object');
      if (options.type !== undefined) this.#type = String(options.type);
    }

    static #chunk(part) {
      if (typeof part === 'string') return new Uint8Array(native.encode(part));
      if (part instanceof ArrayBuffer) return new Uint8Array(part);
      if (ArrayBuffer.isView(part)) return new Uint8Array(part.buffer, part.byteOffset, part.byteLength);
      if (Blob.isBlob(part)) return part.#bytes;
      throw new Error(`failed to process [blobParts]: unsupported type: ${typeof part}`);
    }

    static isBlob(value) { return typeof value === 'object' && value !== null && #bytes in value; }
    static bufferOf(blob) { return blob.#bytes.buffer; }
    get size() { return this.#bytes.length; }
    get type() { return this.#type; }
    arrayBuffer() { return Promise.resolve(this.#bytes.slice().buffer); }
    bytes() { return Promise.resolve(this.#bytes.slice()); }
    text() { return Promise.resolve(native.decode(this.#bytes.buffer)); }

    slice(from, to, type) {
      return new Blob([this.#bytes.slice(from, to)], { type: type === undefined ? '' : String(type) });
    }

    stream() { native.refuse('Blob.stream'); }
    toString() { return '[object Blob]'; }
  }
  const { isBlob, bufferOf } = Blob;
  delete Blob.isBlob;
  delete Blob.bufferOf;

  // The address of the first argument; throws if it is invalid.
  function addressOf(value) {
    if (isNullish(value)) throw new Error('WebSocket requires a url');
    const text = String(value).trim();
    const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(text)?.[1].toLowerCase() ?? '';
    if (scheme !== 'ws' && scheme !== 'wss') {
      throw new Error(`WebSocket requires url with scheme ws or wss, but got "${scheme}"`);
    }
    const [address, ...fragment] = text.split('#');
    if (fragment.join('#') !== '') {
      throw new Error(`WebSocket requires no url fragment, but got "${fragment.join('#')}"`);
    }
    return scheme + address.slice(scheme.length);
  }

  function protocolsOf(value) {
    if (typeof value === 'string' || value instanceof String) return [String(value)];
    return Array.isArray(value) ? value.map(String) : [];
  }

  function bytesOf(data) {
    if (typeof data === 'string' || data instanceof ArrayBuffer || ArrayBuffer.isView(data)) return data;
    if (isBlob(data)) return bufferOf(data);
    throw new Error(`unsupported send type ${data === null ? 'null' : typeof data}`);
  }

  class WebSocket {
    #handle;
    #url;
    #binaryType = 'blob';
    #protocol = '';
    #extensions = [];
    #on = {};
    #listeners = {};
    #closeCode;
    #closeReason = '';

    constructor(url, protocols, params) {
      native.check();
      this.#url = addressOf(url);
      const deliver = (name, ...data) => this.#deliver(name, data);
      this.#handle = native.open(this.#url, protocolsOf(protocols), params, deliver);
    }

    get url() { return this.#url; }
    get readyState() { return native.state(this.#handle); }
    get bufferedAmount() { return native.unsent(this.#handle); }
    get extensions() { return this.#extensions; }
    get protocol() { return this.#protocol; }
    get binaryType() { return this.#binaryType; }

    set binaryType(type) {
      if (type !== 'blob' && type !== 'arraybuffer') {
        throw new Error(`unknown binaryType ${type}, the supported ones are "blob" and "arraybuffer"`);
      }
      this.#binaryType = type;
    }

    addEventListener(event, listener) {
      if (typeof listener !== 'function') {
        throw new Error(`handler for event type "${event}" isn't a callable function`);
      }
      if (!EVENTS.includes(event)) {
        native.warn(`can't add event handler: unknown event type: ${event}`);
        return;
      }
      this.#listeners[event] = [...(this.#listeners[event] ?? []), listener];
    }

    send(data) {
      this.#assertOpen();
      native.send(this.#handle, bytesOf(data));
    }

    ping() {
      this.#assertOpen();
      native.ping(this.#handle);
    }

    close(code, reason) {
      if (this.readyState > CONNECTING_OR_OPEN) return;
      const number = Math.trunc(Number(code)) || 0;
      if (number !== 0 && number !== NORMAL_CLOSURE && !(number >= 3000 && number <= 4999)) {
        throw new Error(
          "InvalidAccessError: Failed to execute 'close' on 'WebSocket': " +
            `The close code must be either 1000, or between 3000 and 4999. ${number} is neither`,
        );
      }
      const text = reason === undefined ? '' : String(reason);
      if (native.encode(text).byteLength > MAX_REASON_BYTES) {
        throw new Error(
          "SyntaxError: Failed to execute 'close' on 'WebSocket': " +
            'The message must not be greater than 123 bytes',
        );
      }
      this.#closeCode = number || NORMAL_CLOSURE;
      native.close(this.#handle, this.#closeCode, text);
    }

    #assertOpen() { if (this.readyState !== 1) throw new Error('InvalidStateError'); }
    #event(type, more) { return { type, target: this, timestamp: Date.now(), ...more }; }

    #fire(type, more) {
      const own = this.#on[type];
      const event = this.#event(type, more);
      for (const listener of [...(own ? [own] : []), ...(this.#listeners[type] ?? [])]) {
        listener.call(undefined, event);
      }
    }

    #deliver(name, data) {
      switch (name) {
        case 'open':
        case 'connected':
          [this.#protocol, this.#extensions] = data;
          if (name === 'open') this.#attempt('open');
          break;
        case 'message':
          this.#attempt('message', { data: this.#received(data[0]), origin: this.#url });
          break;
        case 'closed':
          this.#closed(...data);
          break;
        default:
          this.#fire(name);
      }
    }

    #received(data) {
      const isBlobWanted = data instanceof ArrayBuffer && this.#binaryType === 'blob';
      return isBlobWanted ? new Blob([data]) : data;
    }

    // As in k6 an exception of these listeners closes the socket before it ends the iteration.
    #attempt(type, more) {
      try {
        this.#fire(type, more);
      } catch (error) {
        native.drop(this.#handle);
        try {
          this.#closed(String(error));
        } catch {
          // The first exception is the one that counts.
        }
        throw error;
      }
    }

    #closed(error, code, reason) {
      if (!isNullish(code)) {
        this.#closeCode = code;
        this.#closeReason = reason;
      }
      if (!isNullish(error)) this.#fire('error', { error });
      const end = { reason: this.#closeReason };
      this.#fire('close', this.#closeCode === undefined ? end : { code: this.#closeCode, ...end });
    }

    static defineHandlers() {
      for (const event of EVENTS) {
        const name = `on${event}`;
        Object.defineProperty(WebSocket.prototype, name, {
          get() {
            return this.#on[event] ?? null;
          },
          set(handler) {
            if (!isNullish(handler) && typeof handler !== 'function') {
              throw new Error(`a value for '${name}' should be callable`);
            }
            this.#on[event] = handler ?? undefined;
          },
          enumerable: true,
        });
      }
    }
  }
  WebSocket.defineHandlers();
  delete WebSocket.defineHandlers;

  // As in k6, `new` may be left out.
  const callable = new Proxy(WebSocket, { apply: (target, _, given) => new target(...given) });
  WebSocket.prototype.constructor = callable;
  return { Blob, WebSocket: callable };
})
