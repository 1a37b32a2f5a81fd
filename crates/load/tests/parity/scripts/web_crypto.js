import encoding from 'k6/encoding';
import { KEYS } from './lib/keys.js';

export const options = { iterations: 1 };
const { subtle } = crypto;
const bytes = (text) => new Uint8Array([...text].map((c) => c.charCodeAt(0)));
const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
const der = (name, which) => encoding.b64decode(KEYS[name][which]);
const sorted = (object) => JSON.stringify(Object.fromEntries(Object.entries(object).sort()));
const shape = (key) => [key.type, key.extractable, key.algorithm.name, key.algorithm.length, key.algorithm.namedCurve, key.algorithm.modulusLength, key.algorithm.hash && key.algorithm.hash.name, key.usages];
const say = (name, value) => console.log(name, JSON.stringify(value));

async function fails(name, work) {
  try {
    say(name, ['no error', await work()]);
  } catch (error) {
    say(name, [error.name, error.message]);
  }
}
// Where the text of the reason is that of a library.
async function failsSomehow(name, work) {
  try {
    say(name, ['no error', await work()]);
  } catch (error) {
    say(name, error.name);
  }
}

async function secrets() {
  const data = bytes('some text to work on, longer than a block');
  for (const hash of ['SHA-1', 'sha-256', { name: 'SHA-384' }, 'SHA-512']) say('digest', hex(await subtle.digest(hash, data)));
  say('digest of a buffer', hex(await subtle.digest('SHA-256', data.buffer)));
  for (const hash of ['SHA-1', 'SHA-256', 'SHA-384', 'SHA-512']) {
    const key = await subtle.importKey('raw', bytes('a key'), { name: 'HMAC', hash }, true, ['sign', 'verify']);
    const code = await subtle.sign('HMAC', key, data);
    say('hmac', [hex(code), await subtle.verify('HMAC', key, code, data), await subtle.verify('HMAC', key, code, bytes('other')), shape(key)]);
    say('hmac jwk', sorted(await subtle.exportKey('jwk', key)));
    const password = await subtle.importKey('raw', bytes('password'), 'PBKDF2', false, ['deriveBits', 'deriveKey']);
    const params = { name: 'PBKDF2', hash, salt: bytes('salt'), iterations: 100 };
    say('pbkdf2', [hex(await subtle.deriveBits(params, password, 256)), shape(password)]);
    const derived = await subtle.deriveKey(params, password, { name: 'AES-GCM', length: 256 }, true, ['encrypt', 'decrypt']);
    say('derived', [hex(await subtle.exportKey('raw', derived)), shape(derived)]);
  }
  for (const length of [16, 24, 32]) {
    const raw = bytes('0123456789abcdef0123456789abcdef'.slice(0, length));
    const iv = bytes('an initial value');
    for (const [name, params] of [['AES-CBC', { iv }], ['AES-CTR', { counter: iv, length: 64 }], ['AES-GCM', { iv: iv.slice(0, 12) }], ['AES-GCM', { iv: iv.slice(0, 12), additionalData: bytes('more'), tagLength: 96 }]]) {
      const key = await subtle.importKey('raw', raw, name, true, ['encrypt', 'decrypt']);
      const encrypted = await subtle.encrypt({ name, ...params }, key, data);
      say(name, [hex(encrypted), hex(await subtle.decrypt({ name, ...params }, key, encrypted)), shape(key), sorted(await subtle.exportKey('jwk', key))]);
    }
  }
  for (const [name, length] of [['AES-CBC', 128], ['AES-GCM', 192], ['AES-KW', 256]]) {
    const key = await subtle.generateKey({ name, length }, true, name === 'AES-KW' ? ['wrapKey'] : ['encrypt']);
    say('generated', shape(key));
  }
  for (const hash of ['SHA-1', 'SHA-512']) say('generated', shape(await subtle.generateKey({ name: 'HMAC', hash: { name: hash } }, false, ['sign'])));
}

// Go's members of them are shown, too.
async function shown() {
  const usages = ['sign', 'verify'];
  const [aes, hmac] = [await subtle.generateKey({ name: 'AES-CBC', length: 256 }, true, ['encrypt', 'decrypt']), await subtle.generateKey({ name: 'HMAC', hash: 'SHA-256' }, true, usages)];
  const curve = await subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, usages);
  const rsa = await subtle.generateKey({ name: 'RSA-PSS', modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]), hash: 'SHA-256' }, true, usages);
  const password = await subtle.importKey('raw', bytes('password'), 'PBKDF2', false, ['deriveKey']);
  for (const key of [aes, hmac, password, curve, curve.publicKey, rsa, rsa.privateKey]) {
    console.log(key);
    say('members', [key, Object.keys(key), key.isKeyPair(), key.algorithm && Object.keys(key.algorithm)]);
    for (const name of ['resolveCryptoKey', 'resolveCryptoKeyPair']) {
      try {
        say(name, key[name]() === key);
      } catch (error) {
        say(name, error.message);
      }
    }
  }
  say('usages', [hmac.containsUsage('sign'), hmac.containsUsage('encrypt'), hmac.containsUsage(), hmac.validate()]);
  const { namedCurve } = curve.publicKey.algorithm;
  say('curve', [typeof namedCurve, namedCurve, `${namedCurve}`, namedCurve == 'P-256', namedCurve === 'P-256', namedCurve.string(), Object.keys(namedCurve)]);
  const again = await subtle.generateKey(curve.publicKey.algorithm, true, usages);
  say('again', again.publicKey.algorithm);
}

async function curves() {
  const data = bytes('some text');
  for (const namedCurve of ['P-256', 'P-384', 'P-521']) {
    for (const name of ['ECDSA', 'ECDH']) {
      const isSigning = name === 'ECDSA';
      const algorithm = { name, namedCurve };
      const key = await subtle.importKey('pkcs8', der(namedCurve, 0), algorithm, true, isSigning ? ['sign'] : ['deriveBits']);
      const pub = await subtle.importKey('spki', der(namedCurve, 1), algorithm, true, isSigning ? ['verify'] : []);
      say(name, [shape(key), shape(pub)]);
      const raw = await subtle.exportKey('raw', pub);
      const again = await subtle.importKey('raw', raw, algorithm, true, isSigning ? ['verify'] : []);
      say('exported', [hex(raw), hex(await subtle.exportKey('spki', again)), hex(await subtle.exportKey('pkcs8', key)) === hex(der(namedCurve, 0))]);
      const jwks = [await subtle.exportKey('jwk', key), await subtle.exportKey('jwk', pub)];
      say('jwk', jwks.map(sorted));
      const fromJwk = await subtle.importKey('jwk', jwks[0], algorithm, true, isSigning ? ['sign'] : ['deriveBits']);
      say('of jwk', [shape(fromJwk), sorted(await subtle.exportKey('jwk', fromJwk)) === sorted(jwks[0])]);
      if (isSigning) {
        for (const hash of ['SHA-1', 'SHA-256', 'SHA-384', 'SHA-512']) {
          const signature = await subtle.sign({ name, hash }, key, data);
          say('signature', [signature.byteLength, await subtle.verify({ name, hash }, again, signature, data), await subtle.verify({ name, hash }, again, signature, bytes('other')), await subtle.verify({ name, hash }, again, new Uint8Array(4), data)]);
        }
      } else {
        say('secret', hex(await subtle.deriveBits({ name, public: pub }, key, 128)));
      }
      const made = await subtle.generateKey(algorithm, false, isSigning ? ['sign', 'verify'] : ['deriveBits']);
      say('pair', [shape(made.privateKey), shape(made.publicKey)]);
    }
  }
}

async function rsa() {
  const data = bytes('some text');
  for (const [name, uses] of [['RSASSA-PKCS1-v1_5', ['sign', 'verify']], ['RSA-PSS', ['sign', 'verify']], ['RSA-OAEP', ['decrypt', 'encrypt']]]) {
    for (const hash of ['SHA-1', 'SHA-256', 'SHA-512']) {
      const key = await subtle.importKey('pkcs8', der('RSA', 0), { name, hash }, true, [uses[0]]);
      const pub = await subtle.importKey('spki', der('RSA', 1), { name, hash }, true, [uses[1]]);
      say(name, [shape(key), shape(pub)]);
      const jwks = [await subtle.exportKey('jwk', key), await subtle.exportKey('jwk', pub)];
      say('jwk', jwks.map(sorted));
      say('exported', [hex(await subtle.exportKey('pkcs8', key)) === hex(der('RSA', 0)), hex(await subtle.exportKey('spki', pub)) === hex(der('RSA', 1))]);
      const again = await subtle.importKey('jwk', jwks[0], { name, hash }, true, [uses[0]]);
      say('of jwk', [shape(again), sorted(await subtle.exportKey('jwk', again)) === sorted(jwks[0])]);
      if (name === 'RSA-OAEP') {
        const params = { name, label: bytes('label') };
        const encrypted = await subtle.encrypt(params, pub, data);
        say('encrypted', [encrypted.byteLength, hex(await subtle.decrypt(params, key, encrypted)) === hex(data.buffer)]);
        await failsSomehow('another label', () => subtle.decrypt({ name }, key, encrypted));
      } else {
        const params = { name, saltLength: 20 };
        const signature = await subtle.sign(params, again, data);
        say('signature', [name === 'RSA-PSS' ? signature.byteLength : hex(signature), await subtle.verify(params, pub, signature, data), await subtle.verify(params, pub, signature, bytes('other'))]);
        if (name === 'RSA-PSS') say('another salt', await subtle.verify({ name, saltLength: 32 }, pub, signature, data));
      }
    }
  }
  const params = { name: 'RSA-PSS', modulusLength: 1024, publicExponent: new Uint8Array([1, 0, 1]), hash: 'SHA-256' };
  const made = await subtle.generateKey(params, true, ['sign', 'verify']);
  say('pair', [shape(made.privateKey), shape(made.publicKey)]);
}

async function mistakes() {
  const data = bytes('some text');
  const aes = await subtle.importKey('raw', bytes('0123456789abcdef'), 'AES-CBC', false, ['encrypt', 'decrypt']);
  const hmac = await subtle.importKey('raw', data, { name: 'HMAC', hash: 'SHA-256' }, true, ['sign']);
  const iv = bytes('an initial value');
  const curve = { name: 'ECDSA', namedCurve: 'P-256' };
  const pub = await subtle.importKey('spki', der('P-256', 1), curve, true, ['verify']);
  for (const [name, work] of [
    ['unknown hash', () => subtle.digest('MD5', data)],
    ['algorithm of another operation', () => subtle.encrypt('HMAC', aes, data)],
    ['key of another algorithm', () => subtle.encrypt({ name: 'AES-CTR', counter: iv, length: 64 }, aes, data)],
    ['iv too short', () => subtle.encrypt({ name: 'AES-CBC', iv: iv.slice(1) }, aes, data)],
    ['nothing to encrypt', () => subtle.encrypt({ name: 'AES-CBC', iv }, aes, new Uint8Array(0))],
    ['wrong padding', () => subtle.decrypt({ name: 'AES-CBC', iv }, aes, new Uint8Array(16))],
    ['no data', () => subtle.encrypt({ name: 'AES-CBC', iv }, aes, null)],
    ['not extractable', () => subtle.exportKey('raw', aes)],
    ['format of another key', () => subtle.exportKey('spki', hmac)],
    ['no such format', () => subtle.importKey('pem', data, 'AES-CBC', true, ['encrypt'])],
    ['format of no secret', () => subtle.importKey('spki', data, 'AES-CBC', true, ['encrypt'])],
    ['length of no key', () => subtle.importKey('raw', data, 'AES-CBC', true, ['encrypt'])],
    ['no usage', () => subtle.importKey('raw', bytes('0123456789abcdef'), 'AES-CBC', true, [])],
    ['wrong usage', () => subtle.importKey('raw', bytes('0123456789abcdef'), 'AES-CBC', true, ['sign'])],
    ['no hash', () => subtle.importKey('raw', data, 'HMAC', true, ['sign'])],
    ['no key', () => subtle.importKey('raw', new Uint8Array(0), { name: 'HMAC', hash: 'SHA-1' }, true, ['sign'])],
    ['another length', () => subtle.importKey('raw', data, { name: 'HMAC', hash: 'SHA-1', length: 8 }, true, ['sign'])],
    ['usage that the key has not', () => subtle.verify('HMAC', hmac, data, data)],
    ['public key to sign', () => subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, pub, data)],
    ['hash missing', () => subtle.verify('ECDSA', pub, data, data)],
    ['private format of a public key', () => subtle.exportKey('pkcs8', pub)],
    ['curve missing', () => subtle.generateKey('ECDSA', true, ['sign'])],
    ['curve unknown', () => subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-1' }, true, ['sign'])],
    ['pair without usages', () => subtle.generateKey(curve, true, [])],
    ['pair with wrong usages', () => subtle.generateKey(curve, true, ['encrypt'])],
    ['length missing', () => subtle.generateKey({ name: 'AES-CBC' }, true, ['encrypt'])],
    ['length wrong', () => subtle.generateKey({ name: 'AES-CBC', length: 100 }, true, ['encrypt'])],
    ['HMAC of no length', () => subtle.generateKey({ name: 'HMAC', hash: 'SHA-1', length: 0 }, true, ['sign'])],
    ['even exponent', () => subtle.generateKey({ name: 'RSA-PSS', modulusLength: 1024, hash: 'SHA-1', publicExponent: new Uint8Array([2]) }, true, ['sign'])],
    ['small exponent', () => subtle.generateKey({ name: 'RSA-PSS', modulusLength: 1024, hash: 'SHA-1', publicExponent: new Uint8Array([1]) }, true, ['sign'])],
    ['modulus missing', () => subtle.generateKey({ name: 'RSA-PSS', hash: 'SHA-1' }, true, ['sign'])],
    ['key pair of a hash', () => subtle.generateKey('SHA-1', true, ['sign'])],
    ['jwk of another kind', () => subtle.importKey('jwk', { kty: 'EC' }, 'AES-CBC', true, ['encrypt'])],
    ['jwk without key', () => subtle.importKey('jwk', { kty: 'oct' }, 'AES-CBC', true, ['encrypt'])],
    ['password that is extractable', () => subtle.importKey('raw', data, 'PBKDF2', true, ['deriveBits'])],
    ['bits of nothing', () => subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-1', salt: data, iterations: 1 }, hmac, 0)],
    ['bits that are no bytes', () => subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-1', salt: data, iterations: 1 }, hmac, 9)],
    ['no rounds', () => subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-1', salt: data, iterations: 0 }, hmac, 8)],
    ['no salt', () => subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-1', iterations: 1 }, hmac, 8)],
  ]) await fails(name, work);
  for (const [name, work] of [
    ['no key at all', () => subtle.importKey('spki', data, curve, true, ['verify'])],
    ['private key as a public one', () => subtle.importKey('spki', der('P-256', 0), curve, true, ['verify'])],
    ['RSA key as one of a curve', () => subtle.importKey('pkcs8', der('RSA', 0), curve, true, ['sign'])],
    ['key of a curve as one of RSA', () => subtle.importKey('pkcs8', der('P-256', 0), { name: 'RSA-PSS', hash: 'SHA-1' }, true, ['sign'])],
    ['a point that is none', () => subtle.importKey('raw', data, curve, true, ['verify'])],
    ['data that was changed', async () => {
      const key = await subtle.importKey('raw', bytes('0123456789abcdef'), 'AES-GCM', true, ['decrypt']);
      return subtle.decrypt({ name: 'AES-GCM', iv: iv.slice(0, 12) }, key, new Uint8Array(32));
    }],
  ]) await failsSomehow(name, work);
}

export default async function () {
  await secrets();
  await shown();
  await curves();
  await rsa();
  await mistakes();
}
