import encoding from 'k6/encoding';
import crypto from 'k6/crypto';
export default function () {
  for (const kind of ['std', 'rawstd', 'url', 'rawurl']) {
    const text = encoding.b64encode('a?>b~ ü', kind);
    console.log(`${kind} ${text} ${encoding.b64decode(text, kind, 's')}`);
  }
  for (const name of ['md4', 'md5', 'sha1', 'sha256', 'sha384', 'sha512', 'sha512_224', 'sha512_256', 'ripemd160']) {
    console.log(`${name} ${crypto[name]('text', 'hex')} ${crypto[name]('text', 'base64')}`);
  }
  console.log(crypto.hmac('sha256', 'key', 'data', 'base64rawurl'));
  const hash = crypto.createHash('sha1');
  hash.update('a');
  hash.update('b');
  console.log(hash.digest('hex'));
}
