// formdata: bodies of multipart/form-data. Written anew; the bytes are those of version 0.0.2.

/** Only the lower bytes of a string's characters: UTF-8 has to be passed as an ArrayBuffer. */
function bytes(value) {
  if (typeof value === 'string') return Array.from(value, (_, at) => value.charCodeAt(at) & 0xff);
  if (value && value.byteLength) {
    return Array.from(ArrayBuffer.isView(value) ? value : new Uint8Array(value), (byte) => byte & 0xff);
  }
  return [];
}

export function FormData() {
  if (!(this instanceof FormData)) return new FormData();
  this.boundary = `------RWWorkerFormDataBoundary${Math.random().toString(36)}`;
  this.parts = [];
}

/** A string, or a result of `http.file()`. */
FormData.prototype.append = function append(field, data) {
  if (arguments.length < 2) throw new SyntaxError('Not enough arguments');
  this.parts.push({ field, file: typeof data === 'string' ? { data } : data });
};

FormData.prototype.body = function body() {
  const parts = this.parts.map(({ field, file }) => {
    const name = file.filename ? `; filename="${file.filename.replace(/"/g, '%22')}"` : '';
    const type = file.content_type || 'application/octet-stream';
    const head =
      `--${this.boundary}\r\nContent-Disposition: form-data; name="${field}"${name}\r\n` +
      `Content-Type: ${type}\r\n\r\n`;
    const data = Array.isArray(file.data) ? file.data : bytes(file.data);
    return [bytes(head), data, [13, 10]];
  });
  const all = [...parts.flat(), bytes(`--${this.boundary}--\r\n`)];
  const body = new Uint8Array(all.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of all) {
    body.set(part, at);
    at += part.length;
  }
  return body.buffer;
};

export default { FormData };
