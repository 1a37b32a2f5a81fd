// k6/experimental/redis: commands as methods. Replies that are no texts become what k6 makes of them.
(native) => {
  const TYPES = ['string', 'number', 'boolean'];

  /** As k6's, which is no Error of JavaScript: its text is the message alone. */
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

  /** The values as texts; `first` is the place of the first one among the arguments. */
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

  /** Seconds; what is no time is one in nanoseconds there. */
  const seconds = (reply) => (reply < 0 ? reply * 1e-9 : reply);

  const pairs = (list) => {
    const object = {};
    for (let at = 0; at < list.length; at += 2) object[list[at]] = list[at + 1];
    return object;
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

    async set(key, value, expiration = 0) {
      const words = checked([value], 1);
      const limit = Math.trunc(expiration);
      return this.#send('SET', String(key), ...words, ...(limit > 0 ? ['EX', whole(limit)] : []));
    }

    async get(key) {
      return this.#send('GET', String(key));
    }

    async getSet(key, value) {
      return this.#send('GETSET', String(key), ...checked([value], 1));
    }

    async del(...keys) {
      return this.#send('DEL', ...keys.map(String));
    }

    async getDel(key) {
      return this.#send('GETDEL', String(key));
    }

    async exists(...keys) {
      return this.#send('EXISTS', ...keys.map(String));
    }

    async incr(key) {
      return this.#send('INCR', String(key));
    }

    async incrBy(key, increment) {
      return this.#send('INCRBY', String(key), whole(increment));
    }

    async decr(key) {
      return this.#send('DECR', String(key));
    }

    async decrBy(key, decrement) {
      return this.#send('DECRBY', String(key), whole(decrement));
    }

    async randomKey() {
      return this.#send('RANDOMKEY');
    }

    async mget(...keys) {
      return this.#send('MGET', ...keys.map(String));
    }

    async expire(key, limit) {
      return isOne(await this.#send('EXPIRE', String(key), whole(limit)));
    }

    async ttl(key) {
      return seconds(await this.#send('TTL', String(key)));
    }

    async persist(key) {
      return isOne(await this.#send('PERSIST', String(key)));
    }

    async lpush(key, ...values) {
      return this.#send('LPUSH', String(key), ...checked(values, 1));
    }

    async rpush(key, ...values) {
      return this.#send('RPUSH', String(key), ...checked(values, 1));
    }

    async lpop(key) {
      return this.#send('LPOP', String(key));
    }

    async rpop(key) {
      return this.#send('RPOP', String(key));
    }

    async lrange(key, start, stop) {
      return this.#send('LRANGE', String(key), whole(start), whole(stop));
    }

    async lindex(key, index) {
      return this.#send('LINDEX', String(key), whole(index));
    }

    async lset(key, index, element) {
      return this.#send('LSET', String(key), whole(index), String(element));
    }

    async lrem(key, count, value) {
      return this.#send('LREM', String(key), whole(count), String(value));
    }

    async llen(key) {
      return this.#send('LLEN', String(key));
    }

    async hset(key, field, value) {
      return this.#send('HSET', String(key), String(field), ...checked([value], 2));
    }

    async hsetnx(key, field, value) {
      return isOne(await this.#send('HSETNX', String(key), String(field), String(value)));
    }

    async hget(key, field) {
      return this.#send('HGET', String(key), String(field));
    }

    async hdel(key, ...fields) {
      return this.#send('HDEL', String(key), ...fields.map(String));
    }

    async hgetall(key) {
      return pairs(await this.#send('HGETALL', String(key)));
    }

    async hkeys(key) {
      return this.#send('HKEYS', String(key));
    }

    async hvals(key) {
      return this.#send('HVALS', String(key));
    }

    async hlen(key) {
      return this.#send('HLEN', String(key));
    }

    async hincrby(key, field, increment) {
      return this.#send('HINCRBY', String(key), String(field), whole(increment));
    }

    async sadd(key, ...members) {
      return this.#send('SADD', String(key), ...checked(members, 1));
    }

    async srem(key, ...members) {
      return this.#send('SREM', String(key), ...checked(members, 1));
    }

    async sismember(key, member) {
      return isOne(await this.#send('SISMEMBER', String(key), ...checked([member], 1)));
    }

    async smembers(key) {
      return this.#send('SMEMBERS', String(key));
    }

    async srandmember(key) {
      return this.#send('SRANDMEMBER', String(key));
    }

    async spop(key) {
      return this.#send('SPOP', String(key));
    }
  }

  return { Client };
};
