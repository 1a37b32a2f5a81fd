// `crypto.subtle`, with the algorithms, checks and errors of k6; `run` carries out an operation on bytes.
(run) => {
  'use strict';
  const MATERIAL = Symbol('material');
  const HASHES = ['SHA-1', 'SHA-256', 'SHA-384', 'SHA-512'];
  const AES = ['AES-CBC', 'AES-CTR', 'AES-GCM', 'AES-KW'];
  const CURVES = ['ECDH', 'ECDSA'];
  const PKCS1 = 'RSASSA-PKCS1-v1_5';
  const RSA = [PKCS1, 'RSA-PSS', 'RSA-OAEP'];
  const KEYS = [...AES, 'HMAC', ...CURVES, ...RSA];
  // Algorithms known to each operation, which does not support all of them.
  const KNOWN = {
    digest: HASHES,
    generateKey: [...KEYS, ...HASHES],
    importKey: [...KEYS, 'PBKDF2'],
    exportKey: [...KEYS, 'PBKDF2'],
    encrypt: [...AES, 'RSA-OAEP'],
    decrypt: [...AES, 'RSA-OAEP'],
    sign: ['HMAC', 'ECDSA', 'RSA-PSS', PKCS1],
    verify: ['HMAC', 'ECDSA', 'RSA-PSS', PKCS1],
    deriveBits: [...HASHES, 'PBKDF2', 'ECDH'],
    deriveKey: [...HASHES, 'PBKDF2'],
    getKeyLength: AES,
  };

  const problem = (name, message) => {
    const error = new Error(message);
    for (const [key, value] of Object.entries({ name, message })) Object.defineProperty(error, key, { value, enumerable: true });
    return error;
  };
  const isNothing = (value) => value === null || value === undefined;

  // k6's keys are values of Go: the types that theirs are made of, and their methods, are members too, and printed.
  const named = (name) => ({ algorithm: { name }, name });
  const resolving = (key, keyPair) => ({
    isKeyPair: () => Boolean(keyPair),
    resolveCryptoKey() {
      if (!key) throw new Error('not a CryptoKey');
      return key;
    },
    resolveCryptoKeyPair() {
      if (!keyPair) throw new Error('not a Crypto Key Pair');
      return keyPair;
    },
  });
  class Curve {
    constructor(name) {
      this.string = () => name;
    }
    toString() {
      return this.string();
    }
    toJSON() {
      return this.string();
    }
    valueOf() {
      return this.string();
    }
  }
  class CryptoKey {
    constructor(type, extractable, { name, ...own }, usages, material) {
      const algorithm = { ...named(name), ...own };
      const isNested = own.hash || own.namedCurve;
      const containsUsage = (usage) => this.usages.includes(usage);
      Object.assign(this, { type, extractable, algorithm: isNested ? { key_algorithm: named(name), ...algorithm } : algorithm, usages });
      Object.assign(this, { containsUsage, ...resolving(this), validate() {} });
      Object.defineProperty(this, MATERIAL, { value: material });
    }
  }

  // Runs an operation; a failure becomes an error of this name.
  const attempt = async (error, message, operation, options) => {
    try {
      return await run(operation, options);
    } catch (failure) {
      throw problem(error, message || failure.message);
    }
  };

  // As in k6, a view stands for all of its buffer.
  const bytesOf = (value) => {
    if (isNothing(value)) throw problem('TypeError', 'data is null or undefined');
    const buffer = ArrayBuffer.isView(value) && !(value instanceof DataView) ? value.buffer : value;
    if (!(buffer instanceof ArrayBuffer)) throw problem('OperationError', 'data is neither an ArrayBuffer, nor a TypedArray nor DataView');
    return buffer;
  };
  // The bytes of an optional parameter.
  const parameter = (value) => {
    if (isNothing(value)) return new ArrayBuffer(0);
    if (ArrayBuffer.isView(value)) return value.buffer.slice(value.byteOffset, value.byteOffset + value.byteLength);
    return value instanceof ArrayBuffer ? value : Uint8Array.from(value).buffer;
  };

  const normalize = (value, operation) => {
    const name = typeof value === 'string' ? value : !isNothing(value) && typeof value === 'object' ? value.name : undefined;
    if (typeof value !== 'string' && (isNothing(value) || typeof value !== 'object')) {
      throw problem('SyntaxError', 'algorithm cannot be interpreted as a string or an object');
    }
    const upper = String(name ?? '').toUpperCase();
    const known = upper === PKCS1.toUpperCase() ? PKCS1 : upper;
    if (!KNOWN[operation].includes(known)) {
      throw problem('NotSupportedError', `algorithm ${JSON.stringify(known)} doesn't support (in implementation) operation "${operation}"`);
    }
    return known;
  };
  const hashOf = (params, operation = 'generateKey') => {
    if (isNothing(params?.hash)) throw problem('SyntaxError', 'could not get hash from algorithm parameter');
    return normalize(params.hash, operation);
  };
  const requireHash = (hash) => {
    if (!HASHES.includes(hash)) throw problem('NotSupportedError', `unsupported hash algorithm: ${hash}`);
    return hash;
  };

  const needUsages = (key) => {
    if (key.type !== 'public' && key.usages.length === 0) throw problem('SyntaxError', 'usages cannot not be empty for a secret or private CryptoKey');
    return key;
  };
  const onlyUsages = (usages, allowed, named = true) => {
    for (const usage of usages) if (!allowed.includes(usage)) throw problem('SyntaxError', named ? `invalid key usage: ${usage}` : 'invalid key usage');
  };

  // Checks that a key and an algorithm match, for `operation`.
  const matching = (key, name, operation, prefix = '') => {
    if (!(key instanceof CryptoKey)) throw problem('InvalidAccessError', `${prefix}key argument does hold not a valid CryptoKey object`);
    if (key.algorithm.name !== name) throw problem('InvalidAccessError', `${prefix}algorithm name does not match key algorithm name`);
    return () => {
      if (!key.usages.includes(operation)) throw problem('InvalidAccessError', `${prefix}key does not contain the '${operation}' usage`);
    };
  };
  const needType = (key, type, kind) => {
    if (key.type !== type) throw problem('InvalidAccessError', kind === 'RSA' ? `given CryptoKey is not a ${type} RSA key` : `key is not a valid ${kind} ${type} key`);
  };

  async function aes(operation, name, params, key, data) {
    if (name === 'AES-KW') throw problem('NotSupportedError', `unsupported algorithm ${name}`);
    const isEncrypting = operation === 'encrypt';
    const options = { name, key: key[MATERIAL], data, other: parameter(name === 'AES-CTR' ? params.counter : params.iv) };
    if (name === 'AES-GCM') {
      const bits = Number(params.tagLength || 128);
      if (isEncrypting && options.other.byteLength !== 12) throw problem('NotSupportedError', 'only 12 bytes long iv are supported');
      if ([32, 64].includes(bits) && isEncrypting) throw problem('NotSupportedError', 'tag length 32 and 64 are not supported');
      if (![96, 104, 112, 120, 128].includes(bits)) throw problem('OperationError', 'invalid tag length, should be one of 96, 104, 112, 120, 128');
      if (!isEncrypting && data.byteLength * 8 < bits) throw problem('OperationError', 'ciphertext is too short');
      Object.assign(options, { extra: parameter(params.additionalData), length: bits });
    } else {
      if (options.other.byteLength !== 16) throw problem('OperationError', name === 'AES-CTR' ? 'counter length is not 16 bytes' : 'iv length is not 16 bytes');
      if (name === 'AES-CTR' && !(params.length > 0 && params.length <= 128)) throw problem('OperationError', 'invalid counter length, out of the 0 < x < 128 bounds');
      if (name === 'AES-CBC' && isEncrypting && data.byteLength === 0) throw problem('OperationError', 'could not pad plaintext');
    }
    const message = name === 'AES-CBC' ? 'invalid padding' : 'could not decrypt ciphertext';
    const [result] = await attempt('OperationError', isEncrypting ? undefined : message, `${operation}Aes`, options);
    return result;
  }

  async function rsaOaep(operation, params, key, data) {
    needType(key, operation === 'encrypt' ? 'public' : 'private', 'RSA');
    const options = { hash: requireHash(key.algorithm.hash.name), key: key[MATERIAL], data, other: parameter(params.label) };
    const [result] = await attempt('OperationError', `could not ${operation} data`, `${operation}Rsa`, options);
    return result;
  }

  async function crypt(operation, algorithm, key, data) {
    const bytes = bytesOf(data);
    const name = normalize(algorithm, operation);
    matching(key, name, operation, `${operation}'s `)();
    const params = typeof algorithm === 'string' ? {} : algorithm;
    return name === 'RSA-OAEP' ? rsaOaep(operation, params, key, bytes) : aes(operation, name, params, key, bytes);
  }

  // Arguments of a signature; `type` is that of its key.
  async function signing(operation, algorithm, key, data, signature) {
    const [type, verb] = operation === 'sign' ? ['private', 'sign'] : ['public', 'verify'];
    const name = normalize(algorithm, operation);
    const hash = name === 'ECDSA' ? hashOf(algorithm) : undefined;
    const length = name === 'RSA-PSS' ? algorithm?.saltLength : undefined;
    if (name === 'RSA-PSS' && isNothing(length)) throw problem('SyntaxError', 'could not get saltLength from algorithm parameter');
    matching(key, name, operation)();
    const options = { name, key: key[MATERIAL], data, other: signature };
    if (name === 'HMAC') {
      return [operation === 'sign' ? 'hmac' : 'verifyHmac', { ...options, hash: requireHash(key.algorithm.hash.name) }];
    }
    if (name === 'ECDSA') {
      needType(key, type, 'ECDSA');
      return [`${verb}Curve`, { ...options, hash: requireHash(hash) }];
    }
    needType(key, type, 'RSA');
    if (name === 'RSA-PSS' && Number(length) === 0) throw problem('ImplementationError', "k6 RSA-PSS uses standard Golang SDK that doesn't support salt length=0");
    return [`${verb}Rsa`, { ...options, hash: requireHash(key.algorithm.hash.name), length: Number(length || 0) }];
  }

  const withUsages = (usages, allowed) => usages.filter((usage, index) => allowed.includes(usage) && usages.indexOf(usage) === index);
  const pair = ([priv, pub], algorithm, extractable, usages, forPrivate, forPublic) => {
    const keys = {
      privateKey: new CryptoKey('private', extractable, algorithm, withUsages(usages, forPrivate), priv),
      publicKey: new CryptoKey('public', true, algorithm, withUsages(forPublic, usages), pub),
    };
    return Object.assign(keys, resolving(undefined, keys));
  };
  const hmacOf = (hash, length) => ({ name: 'HMAC', hash: named(hash), length, hashFn: () => requireHash(hash) });

  const BLOCK_BITS = { 'SHA-1': 512, 'SHA-256': 512, 'SHA-384': 1024, 'SHA-512': 1024 };
  const random = async (bits) => (await attempt('OperationError', 'could not generate random key', 'random', { number: Math.floor(bits / 8) }))[0];
  const needCurve = (params) => {
    if (isNothing(params.namedCurve)) throw problem('SyntaxError', 'could not get namedCurve from algorithm parameter');
    return String(params.namedCurve);
  };

  async function generateSecret(name, params, extractable, usages) {
    if (name === 'HMAC') {
      const hash = hashOf(params);
      onlyUsages(usages, ['sign', 'verify']);
      const length = isNothing(params.length) ? BLOCK_BITS[hash] : Math.trunc(params.length);
      if (length === undefined) throw problem('ImplementationError', `invalid hash algorithm: ${hash}`);
      if (!(length > 0)) throw problem('OperationError', "algorithm's length cannot be 0");
      return needUsages(new CryptoKey('secret', extractable, hmacOf(hash, length), usages, await random(length)));
    }
    if (isNothing(params.length)) throw problem('SyntaxError', 'could not get length from algorithm parameter');
    onlyUsages(usages, name === 'AES-KW' ? ['wrapKey', 'unwrapKey'] : ['encrypt', 'decrypt', 'wrapKey', 'unwrapKey'], false);
    const length = Math.trunc(params.length);
    if (![128, 192, 256].includes(length)) throw problem('OperationError', 'invalid key length');
    return needUsages(new CryptoKey('secret', extractable, { name, length }, usages, await random(length)));
  }

  async function generateOnCurve(name, params, extractable, usages) {
    const namedCurve = needCurve(params);
    const [forPrivate, forPublic] = name === 'ECDH' ? [['deriveKey', 'deriveBits'], []] : [['sign'], ['verify']];
    if (!['P-256', 'P-384', 'P-521'].includes(namedCurve)) throw problem('NotSupportedError', `elliptic curve ${namedCurve} is not supported`);
    if (usages.length === 0) throw problem('SyntaxError', 'key usages cannot be empty');
    onlyUsages(usages, [...forPrivate, ...forPublic], false);
    const made = await attempt('OperationError', `unable to generate a ${name} key pair`, 'generateCurve', { name: namedCurve });
    return pair(made, { name, namedCurve: new Curve(namedCurve) }, extractable, usages, forPrivate, forPublic);
  }

  async function generateRsa(name, params, extractable, usages) {
    for (const needed of ['modulusLength', 'publicExponent']) {
      if (isNothing(params[needed])) throw problem('SyntaxError', `could not get ${needed} from algorithm parameter`);
    }
    const hash = hashOf(params);
    if (!ArrayBuffer.isView(params.publicExponent)) throw problem('OperationError', 'publicExponent is not a byte array');
    const exponent = [...params.publicExponent].reduce((number, byte) => number * 256 + byte, 0);
    const wrong = exponent % 2 === 0 ? 'even' : exponent < 2 ? 'too small' : exponent > 2 ** 31 - 1 ? 'too large' : '';
    if (wrong) throw problem('OperationError', `invalid public exponent: public exponent is ${wrong}`.replace('is too', 'too'));
    if (usages.length === 0) throw problem('SyntaxError', 'key usages cannot be empty');
    const isOaep = name === 'RSA-OAEP';
    onlyUsages(usages, isOaep ? ['encrypt', 'decrypt', 'wrapKey', 'unwrapKey'] : ['sign', 'verify']);
    // As in k6, which makes keys with the exponent 65537 and rejects any other.
    if (exponent !== 65537) throw problem('OperationError', 'could not validate RSA key pair, check public exponent');
    const modulusLength = Math.trunc(params.modulusLength);
    const made = await attempt('OperationError', 'could not generate RSA key pair', 'generateRsa', { number: modulusLength });
    const algorithm = { name, modulusLength, hash: { name: hash } };
    return pair(made, algorithm, extractable, usages, isOaep ? ['decrypt'] : ['sign'], isOaep ? ['encrypt'] : ['verify']);
  }

  const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const toBase64 = (buffer) => {
    let text = '';
    let [bits, count] = [0, 0];
    for (const byte of new Uint8Array(buffer)) {
      [bits, count] = [((bits << 8) | byte) & 0xffff, count + 8];
      for (; count >= 6; count -= 6) text += ALPHABET[(bits >> (count - 6)) & 63];
    }
    return count > 0 ? text + ALPHABET[(bits << (6 - count)) & 63] : text;
  };
  const fromBase64 = (text, what) => {
    const bytes = [];
    let [bits, count] = [0, 0];
    for (const letter of String(text)) {
      const value = ALPHABET.indexOf(letter);
      if (value < 0) throw problem('DataError', `failed to decode ${what}: illegal base64 data`);
      [bits, count] = [((bits << 6) | value) & 0xffff, count + 6];
      if (count >= 8) bytes.push((bits >> (count -= 8)) & 255);
    }
    return Uint8Array.from(bytes).buffer;
  };
  const need = (jwk, kty, kind, names) => {
    if (jwk?.kty !== kty) throw problem('DataError', `invalid ${kind}: invalid key type: ${jwk?.kty ?? ''}`);
    for (const [name, told] of names) if (!jwk[name]) throw problem('DataError', `invalid ${kind}: ${told} is required`);
  };

  const secretOf = (format, data, operation = 'unsupported key format') => {
    if (format === 'raw') return data;
    if (format !== 'jwk') throw problem('NotSupportedError', `${operation} ${format}`);
    need(data, 'oct', 'symmetric JWK', [['k', 'key (k)']]);
    return fromBase64(data.k, 'symmetric key');
  };

  function importSecret(name, params, format, data, extractable, usages) {
    if (name === 'PBKDF2') {
      if (format !== 'raw') throw problem('NotSupportedError', `invalid format: ${format}`);
      onlyUsages(usages, ['deriveBits', 'deriveKey']);
      if (extractable) throw problem('SyntaxError', 'invalid value for param extractable ');
      return new CryptoKey('secret', extractable, { name }, usages, data);
    }
    if (name === 'HMAC') {
      const hash = hashOf(params);
      onlyUsages(usages, ['sign', 'verify']);
      const material = secretOf(format, data);
      const length = material.byteLength * 8;
      if (length === 0) throw problem('DataError', 'key length cannot be 0');
      if (!isNothing(params.length) && Math.trunc(params.length) !== length) {
        throw problem('DataError', 'key length cannot be different from the length of the imported data');
      }
      return new CryptoKey('secret', extractable, hmacOf(hash, length), usages, material);
    }
    onlyUsages(usages, ['encrypt', 'decrypt', 'wrapKey', 'unwrapKey']);
    const material = secretOf(format, data);
    if (![16, 24, 32].includes(material.byteLength)) throw problem('DataError', `invalid key length ${material.byteLength} bytes`);
    return new CryptoKey('secret', extractable, { name, length: material.byteLength * 8 }, usages, material);
  }

  async function importOnCurve(name, params, format, data, extractable, usages) {
    const namedCurve = needCurve(params);
    const key = (type, material) => new CryptoKey(type, extractable, { name, namedCurve: new Curve(namedCurve) }, usages, material);
    const message = (kind) => `unable to import ${name} ${kind} key data`;
    if (format === 'raw') {
      if (!['P-256', 'P-384', 'P-521'].includes(namedCurve)) throw problem('NotSupportedError', `invalid elliptic curve ${namedCurve}`);
      const [material] = await attempt('DataError', message('public'), 'curveOfRaw', { name: namedCurve, data });
      return key('public', material);
    }
    if (format === 'jwk') {
      need(data, 'EC', 'EC JWK key', [['crv', 'curve'], ['x', 'coordinate X'], ['y', 'coordinate Y']]);
      const parts = ['x', 'y', 'd'].filter((part) => data[part]).map((part) => fromBase64(data[part], part));
      const [material] = await attempt('DataError', 'invalid EC JWK key', 'curveOfParts', { name: String(data.crv), parts });
      return key(parts.length === 3 ? 'private' : 'public', material);
    }
    const type = { pkcs8: 'private', spki: 'public' }[format];
    const parts = await attempt('DataError', message(type), 'partsOfCurve', { key: data });
    if ((parts.length === 4) !== (type === 'private')) throw problem('DataError', message(type));
    return key(type, data);
  }

  async function importRsa(name, params, format, data, extractable, usages) {
    const hash = hashOf(params);
    if (!['pkcs8', 'spki', 'jwk'].includes(format)) throw problem('NotSupportedError', `unsupported key format ${format} for algorithm ${name}`);
    let type = { pkcs8: 'private', spki: 'public' }[format];
    let material = data;
    if (format === 'jwk') {
      need(data, 'RSA', 'RSA JWK key', [['n', 'modulus (n)'], ['e', 'exponent (e)']]);
      type = data.d ? 'private' : 'public';
      const parts = (data.d ? ['n', 'e', 'd', 'p', 'q'] : ['n', 'e']).map((part) => fromBase64(data[part] ?? '', part));
      [material] = await attempt('DataError', 'failed to validate key', 'rsaOfParts', { parts });
    }
    const message = `unable to import RSA ${type} key data`;
    const parts = await attempt('DataError', message, 'partsOfRsa', { key: material });
    if ((parts.length > 2) !== (type === 'private')) throw problem('DataError', message);
    const [first] = new Uint8Array(parts[0]);
    const modulusLength = parts[0].byteLength * 8 - Math.clz32(first) + 24;
    return new CryptoKey(type, extractable, { name, modulusLength, hash: { name: hash } }, usages, material);
  }

  const importFor = (name) => (CURVES.includes(name) ? importOnCurve : RSA.includes(name) ? importRsa : importSecret);

  async function exportSecret(key, format) {
    if (format === 'raw') return key[MATERIAL].slice(0);
    if (format !== 'jwk') throw problem('NotSupportedError', `unsupported key format ${format}`);
    const { name, hash, length } = key.algorithm;
    const alg = hash ? `HS${hash.name.slice(4)}` : `A${length}${name.slice(4)}`;
    return { k: toBase64(key[MATERIAL]), kty: 'oct', ext: key.extractable, key_ops: key.usages, alg };
  }

  async function exportPair(key, format, kind) {
    const type = { raw: 'public', spki: 'public', pkcs8: 'private' }[format];
    const isCurve = kind === 'EC';
    if (format === 'jwk') {
      const parts = (await attempt('ImplementationError', undefined, isCurve ? 'partsOfCurve' : 'partsOfRsa', { key: key[MATERIAL] }));
      if (!isCurve) return Object.fromEntries([['kty', 'RSA'], ...['n', 'e', 'd', 'p', 'q', 'dp', 'dq', 'qi'].slice(0, parts.length).map((name, index) => [name, toBase64(parts[index])])]);
      // As in k6, coordinates have no zeros in front.
      for (const at of [1, 2]) parts[at] = parts[at].slice(new Uint8Array(parts[at]).findIndex((byte) => byte !== 0));
      const crv = String.fromCharCode(...new Uint8Array(parts[0]));
      return Object.fromEntries([['kty', 'EC'], ['crv', crv], ...['x', 'y', 'd'].slice(0, parts.length - 1).map((name, index) => [name, toBase64(parts[index + 1])])]);
    }
    if (type === undefined || (format === 'raw' && !isCurve)) throw problem('NotSupportedError', `unsupported key format ${format}`);
    if (key.type !== type) throw problem('InvalidAccessError', isCurve ? `key is not a valid elliptic curve ${type} key` : `given CryptoKey is not a ${type} RSA key`);
    return format === 'raw' ? (await attempt('OperationError', undefined, 'rawOfCurve', { key: key[MATERIAL] }))[0] : key[MATERIAL].slice(0);
  }

  // Bytes of PBKDF2; the password must have this usage.
  async function stretch(params, key, usage, bits) {
    const hash = hashOf(params, 'deriveBits');
    if (isNothing(params.iterations)) throw problem('TypeError', 'field iterations is null or undefined');
    if (Math.trunc(params.iterations) === 0) throw problem('OperationError', "number of iterations can't be 0");
    if (isNothing(params.salt)) throw problem('TypeError', 'field salt is null or undefined');
    if (key?.type !== 'secret') throw problem('InvalidAccessError', "algorithm's password key is not a secret key");
    if (!key.usages.includes(usage)) throw problem('InvalidAccessError', `provided baseKey doesn't contain \`${usage}\` usage`);
    if (key.algorithm.name !== 'PBKDF2') throw problem('OperationError', 'provided baseKey is not a valid algorithm');
    if (bits % 8 !== 0) throw problem('InvalidAccessError', 'provided length of key must be a multiple of 8');
    const options = { hash: requireHash(hash), key: key[MATERIAL], other: parameter(params.salt), number: Math.trunc(params.iterations), length: bits / 8 };
    return (await attempt('OperationError', undefined, 'deriveBits', options))[0];
  }

  async function agree(params, key, bits) {
    const { public: other } = params;
    if (!(other instanceof CryptoKey)) throw problem('TypeError', 'algorithm does not contain a public key');
    if (other.type !== 'public') throw problem('InvalidAccessError', "algorithm's public key is not a public key");
    if (other.algorithm.name !== 'ECDH') throw problem('InvalidAccessError', `algorithm name does not match public key's algorithm name: ECDH != ${other.algorithm.name}`);
    if (key?.type !== 'private') throw problem('InvalidAccessError', 'provided baseKey is not a private key');
    if (!key.usages.includes('deriveBits')) throw problem('InvalidAccessError', "provided baseKey does not contain the 'deriveBits' usage");
    const [one, two] = [String(key.algorithm.namedCurve), String(other.algorithm.namedCurve)];
    if (one !== two) throw problem('InvalidAccessError', `keys have different curves ${one} and ${two}`);
    const [secret] = await attempt('InvalidAccessError', 'key is not a valid ECDH private key', 'agreeCurve', { key: key[MATERIAL], other: other[MATERIAL] });
    if (secret.byteLength < bits / 8) throw problem('OperationError', 'length is too large');
    return secret.slice(0, bits / 8);
  }

  return {
    encrypt: async (algorithm, key, data) => crypt('encrypt', algorithm, key, data),
    decrypt: async (algorithm, key, data) => crypt('decrypt', algorithm, key, data),

    async sign(algorithm, key, data) {
      const [operation, options] = await signing('sign', algorithm, key, bytesOf(data));
      return (await attempt('OperationError', 'could not sign data', operation, options))[0];
    },

    async verify(algorithm, key, signature, data) {
      const [operation, options] = await signing('verify', algorithm, key, bytesOf(data), bytesOf(signature));
      return attempt('OperationError', undefined, operation, options);
    },

    async digest(algorithm, data) {
      if (!(data instanceof ArrayBuffer) && !ArrayBuffer.isView(data)) throw new Error('data must be an ArrayBuffer, TypedArray, or DataView');
      const bytes = bytesOf(data);
      return (await run('digest', { hash: normalize(algorithm, 'digest'), data: bytes }))[0];
    },

    async generateKey(algorithm, extractable, keyUsages) {
      const name = normalize(algorithm, 'generateKey');
      if (HASHES.includes(name)) throw problem('NotImplemented', `unsupported key generation algorithm '${name}', accepted values are: ${KEYS.join(', ')}`);
      const make = CURVES.includes(name) ? generateOnCurve : RSA.includes(name) ? generateRsa : generateSecret;
      return make(name, typeof algorithm === 'string' ? {} : algorithm, Boolean(extractable), [...(keyUsages || [])]);
    },

    async importKey(format, data, algorithm, extractable, keyUsages) {
      if (!['raw', 'pkcs8', 'spki', 'jwk'].includes(format)) throw problem('ImplementationError', `unsupported format ${format}`);
      const material = format === 'jwk' ? data : bytesOf(data).slice(0);
      const name = normalize(algorithm, 'importKey');
      const params = typeof algorithm === 'string' ? {} : algorithm;
      return needUsages(await importFor(name)(name, params, format, material, Boolean(extractable), [...(keyUsages || [])]));
    },

    async exportKey(format, key) {
      if (!(key instanceof CryptoKey)) throw problem('ImplementationError', 'unable to extract CryptoKey from key object');
      if (!key.extractable) throw problem('InvalidAccessError', 'the key is not extractable');
      const { name } = key.algorithm;
      if (name === 'AES-KW') throw problem('NotSupportedError', `unsupported algorithm ${name}`);
      return CURVES.includes(name) ? exportPair(key, format, 'EC') : RSA.includes(name) ? exportPair(key, format, 'RSA') : exportSecret(key, format);
    },

    async deriveBits(algorithm, key, length) {
      const name = normalize(algorithm, 'deriveBits');
      if (HASHES.includes(name)) throw problem('NotSupportedError', `unsupported algorithm for derive bits: ${name}`);
      const bits = Math.trunc(Number(length) || 0);
      if (bits === 0) throw problem('OperationError', 'length can not be 0');
      if (bits % 8 !== 0) throw problem('OperationError', 'currently only multiples of 8 are supported for length');
      return name === 'ECDH' ? agree(algorithm, key, bits) : stretch(algorithm, key, 'deriveBits', bits);
    },

    async deriveKey(algorithm, key, derived, extractable, keyUsages) {
      const name = normalize(algorithm, 'deriveKey');
      const into = normalize(derived, 'importKey');
      normalize(derived, 'getKeyLength');
      if (HASHES.includes(name)) throw new Error(`key derivation not implemented for algorithm ${name}`);
      if (isNothing(derived.length)) throw problem('OperationError', 'aes length parameter not specified');
      const material = await stretch(algorithm, key, 'deriveKey', Math.trunc(derived.length));
      return needUsages(importSecret(into, derived, 'raw', material, Boolean(extractable), [...(keyUsages || [])]));
    },

    async wrapKey() {
      throw new Error('not implemented');
    },

    async unwrapKey() {
      throw new Error('not implemented');
    },
  };
}
