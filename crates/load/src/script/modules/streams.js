// k6/experimental/streams: k6's part of the Streams Standard (https://streams.spec.whatwg.org), with its messages.

const notSupported = (what) => new Error(`NotSupportedError:${what} is not supported yet`);
const isObject = (value) =>
  (typeof value === 'object' && value !== null) || typeof value === 'function';
const deferred = () => {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  // It need not be handled: a rejection is no error of the script.
  made.promise.catch(() => {});
  return made;
};

export class CountQueuingStrategy {
  constructor(init) {
    if (arguments.length !== 1) {
      throw new TypeError('CountQueuingStrategy takes a single argument');
    }
    if (!isObject(init)) {
      throw new TypeError('CountQueuingStrategy argument must be an object');
    }
    if (init.highWaterMark === undefined || init.highWaterMark === null) {
      throw new TypeError("CountQueuingStrategy argument must have 'highWaterMark' property");
    }
    const fixed = (value) => ({ value, enumerable: true, writable: false, configurable: false });
    Object.defineProperties(this, {
      highWaterMark: fixed(init.highWaterMark),
      size: fixed(() => 1),
    });
  }
}

/** Used by a source to fill the queue. */
class ReadableStreamDefaultController {
  #state;
  constructor(state) { this.#state = state; }
  get desiredSize() { return this.#state.desiredSize(); }
  close() {
    if (!this.#state.canClose()) throw new TypeError('cannot close or enqueue');
    this.#state.requestClose();
  }
  enqueue(chunk) {
    if (!this.#state.canClose()) throw new TypeError('cannot close or enqueue');
    this.#state.enqueue(chunk);
  }
  error(reason) { this.#state.fail(reason); }
}

/** The slots of a stream and of its controller. */
class State {
  kind = 'readable';
  reader = null;
  failure = undefined;
  started = false;
  queue = [];
  queued = 0;
  closeRequested = false;
  pulling = false;
  pullAgain = false;

  constructor(source, size, mark) {
    this.sizeOf = size;
    this.mark = mark;
    this.controller = new ReadableStreamDefaultController(this);
    for (const name of ['start', 'pull', 'cancel']) {
      const callback = source[name];
      if (callback !== undefined && typeof callback !== 'function') {
        throw new TypeError(`underlyingSource.[[${name}]] must be a function`);
      }
      this[name] = callback === undefined ? () => undefined : callback.bind(source);
    }
  }

  begin() {
    const started = this.start(this.controller);
    Promise.resolve(started).then(
      () => {
        this.started = true;
        this.pullIfNeeded();
      },
      (reason) => this.fail(reason),
    );
  }

  desiredSize() {
    if (this.kind === 'errored') return null;
    return this.kind === 'closed' ? 0 : this.mark - this.queued;
  }

  canClose() { return !this.closeRequested && this.kind === 'readable'; }
  waiting() { return this.reader === null ? 0 : this.reader.requests.length; }

  enqueue(chunk) {
    if (this.waiting() > 0) {
      this.reader.requests.shift().resolve({ value: chunk, done: false });
    } else {
      let size;
      try {
        size = Number(this.sizeOf(chunk));
        if (!(size >= 0 && size < Infinity)) {
          throw new RangeError('size must be a finite, non-NaN number');
        }
      } catch (error) {
        this.fail(error);
        throw error;
      }
      this.queue.push([chunk, size]);
      this.queued += size;
    }
    this.pullIfNeeded();
  }

  requestClose() {
    this.closeRequested = true;
    if (this.queue.length === 0) this.close();
  }

  close() {
    this.forget();
    this.kind = 'closed';
    if (this.reader === null) return;
    for (const request of this.reader.requests.splice(0)) {
      request.resolve({ value: undefined, done: true });
    }
    this.reader.closed.resolve(undefined);
  }

  fail(reason) {
    if (this.kind !== 'readable') return;
    this.queue = [];
    this.queued = 0;
    this.forget();
    this.kind = 'errored';
    this.failure = reason;
    if (this.reader === null) return;
    for (const request of this.reader.requests.splice(0)) request.reject(reason);
    this.reader.closed.reject(reason);
  }

  /** Drops the callbacks of the source. */
  forget() {
    this.pull = this.cancel = () => undefined;
    this.sizeOf = () => 1;
  }

  shouldPull() {
    if (!this.canClose() || !this.started) return false;
    return this.waiting() > 0 || this.desiredSize() > 0;
  }

  pullIfNeeded() {
    if (!this.shouldPull()) return;
    if (this.pulling) {
      this.pullAgain = true;
      return;
    }
    this.pulling = true;
    new Promise((resolve) => resolve(this.pull(this.controller))).then(
      () => {
        this.pulling = false;
        if (this.pullAgain) {
          this.pullAgain = false;
          this.pullIfNeeded();
        }
      },
      (reason) => this.fail(reason),
    );
  }

  read(request) {
    if (this.kind === 'closed') {
      request.resolve({ value: undefined, done: true });
    } else if (this.kind === 'errored') {
      request.reject(this.failure);
    } else if (this.queue.length > 0) {
      const [chunk, size] = this.queue.shift();
      this.queued = Math.max(0, this.queued - size);
      if (this.closeRequested && this.queue.length === 0) this.close();
      else this.pullIfNeeded();
      request.resolve({ value: chunk, done: false });
    } else {
      this.reader.requests.push(request);
      this.pullIfNeeded();
    }
  }

  cancelled(reason) {
    if (this.kind === 'closed') return Promise.resolve(undefined);
    if (this.kind === 'errored') return Promise.reject(this.failure);
    const cancel = this.cancel;
    this.queue = [];
    this.queued = 0;
    this.close();
    return new Promise((resolve) => resolve(cancel(reason))).then(() => undefined);
  }
}

let stateOf;

export class ReadableStream {
  #state;
  static {
    stateOf = (stream) => (isObject(stream) && #state in stream ? stream.#state : null);
  }
  constructor(source, strategy) {
    const given = strategy === undefined || strategy === null ? {} : Object(strategy);
    if (source !== undefined && !isObject(source)) {
      throw new TypeError('underlyingSource must be an object');
    }
    const from = source === undefined ? {} : source;
    const { type } = from;
    if (type !== undefined && String(type) !== 'bytes') {
      throw new TypeError('invalid underlying source type');
    }
    if (type !== undefined) throw notSupported("'bytes' stream");
    const { size = () => 1, highWaterMark } = given;
    if (typeof size !== 'function') throw new TypeError('size must be a function');
    const mark = highWaterMark === undefined || highWaterMark === null ? 1 : highWaterMark;
    if (typeof mark !== 'number' || !(mark >= 0)) {
      throw new RangeError('highWaterMark must be a non-negative number');
    }
    this.#state = new State(from, (chunk) => size(chunk), mark);
    this.#state.begin();
  }
  get locked() { return this.#state.reader !== null; }
  cancel(reason) {
    return this.locked
      ? Promise.reject(new TypeError('cannot cancel a locked stream'))
      : this.#state.cancelled(reason);
  }
  getReader(options) {
    const mode = options === undefined || options === null ? undefined : options.mode;
    if (mode === undefined) return new ReadableStreamDefaultReader(this);
    if (String(mode) !== 'byob') throw new TypeError("options.mode is not 'byob'");
    throw notSupported("'byob' mode");
  }
  tee() { throw notSupported("'tee()'"); }
}

export class ReadableStreamDefaultReader {
  #state;
  #slots = { requests: [], closed: deferred() };
  constructor(stream) {
    if (arguments.length !== 1) {
      throw new TypeError('ReadableStreamDefaultReader takes a single argument');
    }
    const state = stateOf(stream);
    if (state === null) {
      throw new TypeError('ReadableStreamDefaultReader argument must be a ReadableStream');
    }
    if (state.reader !== null) throw new TypeError('stream is locked');
    this.#state = state;
    state.reader = this.#slots;
    if (state.kind === 'closed') this.#slots.closed.resolve(undefined);
    if (state.kind === 'errored') this.#slots.closed.reject(state.failure);
  }
  get closed() { return this.#slots.closed.promise; }
  read() {
    if (!this.#state) return Promise.reject(new TypeError('stream is undefined'));
    const state = this.#state;
    return new Promise((resolve, reject) => state.read({ resolve, reject }));
  }
  cancel(reason) {
    return this.#state
      ? this.#state.cancelled(reason)
      : Promise.reject(new TypeError('stream is undefined'));
  }
  releaseLock() {
    if (!this.#state) return;
    const slots = this.#slots;
    if (this.#state.kind !== 'readable') slots.closed = deferred();
    slots.closed.reject(
      new TypeError(
        this.#state.kind === 'readable' ? 'stream is readable' : 'stream is not readable',
      ),
    );
    this.#state.reader = null;
    this.#state = null;
    for (const request of slots.requests.splice(0)) {
      request.reject(new TypeError('reader released'));
    }
  }
}

export default { CountQueuingStrategy, ReadableStream, ReadableStreamDefaultReader };
