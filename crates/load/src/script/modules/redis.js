// k6/experimental/redis: commands as methods. Replies that are no strings are converted as in k6.
(native) => {
  const TYPES = ['string', 'number', 'boolean'];

  /** As k6's error, which is no JavaScript Error: its text is the message alone. */
  class RedisError extends Error {
    toString() {
      return this.message;
    }
    error() {
      return this.message;
    }
  }

  /** A number as Go's client writes it. */
  const decimal = (number) => {
    if (Number.isFinite(number) && Math.abs(number) >= 1e21) return BigInt(number).toString();
    const [digits, exponent] = String(number).split('e-');
    if (exponent === undefined) return digits;
    const [sign, rest] = digits[0] === '-' ? ['-', digits.slice(1)] : ['', digits];
    return `${sign}0.${'0'.repeat(exponent - 1)}${rest.replace('.', '')}`;
  };

  const text = (value) => {
    if (typeof value === 'boolean') return value ? '1' : '0';
    return typeof value === 'number' ? decimal(value) : String(value);
  };

  const whole = (value) => {
    const number = Math.trunc(Number(value));
    return Number.isFinite(number) ? decimal(number) : '0';
  };

  /** The values as strings; `first` is the index of the first one among the arguments. */
  const checked = (values, first) => {
    const wrong = values.findIndex((value) => !TYPES.includes(typeof value));
    if (wrong !== -1) {
      const at = wrong + first;
      throw new RedisError(
        `unsupported type provided for argument at index ${at}, supported types are string, number, and boolean`,
      );
    }
    return values.map(text);
  };

  const isOne = (reply) => reply === 1;

  /** Seconds; as in k6, other values count as nanoseconds. */
  const seconds = (reply) => (reply < 0 ? reply * 1e-9 : reply);

  const pairs = (list) => {
    const object = {};
    for (let at = 0; at < list.length; at += 2) object[list[at]] = list[at + 1];
    return object;
  };

  /** The words of each command. */
  const COMMANDS = {
    set: (key, value, expiration = 0) => {
      const words = checked([value], 1);
      const limit = Math.trunc(expiration);
      return ['SET', String(key), ...words, ...(limit > 0 ? ['EX', whole(limit)] : [])];
    },
    get: (key) => ['GET', String(key)],
    getSet: (key, value) => ['GETSET', String(key), ...checked([value], 1)],
    del: (...keys) => ['DEL', ...keys.map(String)],
    getDel: (key) => ['GETDEL', String(key)],
    exists: (...keys) => ['EXISTS', ...keys.map(String)],
    incr: (key) => ['INCR', String(key)],
    incrBy: (key, increment) => ['INCRBY', String(key), whole(increment)],
    decr: (key) => ['DECR', String(key)],
    decrBy: (key, decrement) => ['DECRBY', String(key), whole(decrement)],
    randomKey: () => ['RANDOMKEY'],
    mget: (...keys) => ['MGET', ...keys.map(String)],
    expire: (key, limit) => ['EXPIRE', String(key), whole(limit)],
    ttl: (key) => ['TTL', String(key)],
    persist: (key) => ['PERSIST', String(key)],
    lpush: (key, ...values) => ['LPUSH', String(key), ...checked(values, 1)],
    rpush: (key, ...values) => ['RPUSH', String(key), ...checked(values, 1)],
    lpop: (key) => ['LPOP', String(key)],
    rpop: (key) => ['RPOP', String(key)],
    lrange: (key, start, stop) => ['LRANGE', String(key), whole(start), whole(stop)],
    lindex: (key, index) => ['LINDEX', String(key), whole(index)],
    lset: (key, index, element) => ['LSET', String(key), whole(index), String(element)],
    lrem: (key, count, value) => ['LREM', String(key), whole(count), String(value)],
    llen: (key) => ['LLEN', String(key)],
    hset: (key, field, value) => ['HSET', String(key), String(field), ...checked([value], 2)],
    hsetnx: (key, field, value) => ['HSETNX', String(key), String(field), String(value)],
    hget: (key, field) => ['HGET', String(key), String(field)],
    hdel: (key, ...fields) => ['HDEL', String(key), ...fields.map(String)],
    hgetall: (key) => ['HGETALL', String(key)],
    hkeys: (key) => ['HKEYS', String(key)],
    hvals: (key) => ['HVALS', String(key)],
    hlen: (key) => ['HLEN', String(key)],
    hincrby: (key, field, increment) => ['HINCRBY', String(key), String(field), whole(increment)],
    sadd: (key, ...members) => ['SADD', String(key), ...checked(members, 1)],
    srem: (key, ...members) => ['SREM', String(key), ...checked(members, 1)],
    sismember: (key, member) => ['SISMEMBER', String(key), ...checked([member], 1)],
    smembers: (key) => ['SMEMBERS', String(key)],
    srandmember: (key) => ['SRANDMEMBER', String(key)],
    spop: (key) => ['SPOP', String(key)],
  };

  /** Conversions of replies that are not returned as they are. */
  const RESULTS = {
    expire: isOne,
    ttl: seconds,
    persist: isOne,
    hsetnx: isOne,
    hgetall: pairs,
    sismember: isOne,
  };

  class Client {
    #handle;

    constructor(...options) {
      if (options.length !== 1) throw new Error('must specify one argument');
      const [given] = options;
      if (typeof given === 'string') {
        this.#handle = native.open(given, true);
      } else if (typeof given === 'object' && given !== null) {
        this.#handle = native.open(JSON.stringify(given), false);
      } else {
        throw new Error(`invalid options type: ${typeof given}; expected string or object`);
      }
    }

    async #send(...command) {
      try {
        return await native.send(this.#handle, command);
      } catch (error) {
        throw new RedisError(error.message);
      }
    }

    isConnected() {
      return native.isConnected(this.#handle);
    }

    async sendCommand(command, ...args) {
      return this.#send(String(command), ...checked(args, 1));
    }

    static {
      for (const [name, words] of Object.entries(COMMANDS)) {
        const result = RESULTS[name] ?? ((reply) => reply);
        const { [name]: value } = {
          async [name](...args) {
            return result(await this.#send(...words(...args)));
          },
        };
        Object.defineProperty(this.prototype, name, { value, writable: true, configurable: true });
      }
    }
  }

  return { Client };
};
