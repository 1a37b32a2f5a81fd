import http from 'k6/http';
import { FormData } from 'https://jslib.k6.io/formdata/0.0.2/index.js';

export default function () {
  const shown = (form) => {
    const text = String.fromCharCode(...new Uint8Array(form.body()));
    console.log(JSON.stringify(text.replaceAll(form.boundary, 'B')));
  };
  const form = new FormData();
  console.log(/^------RWWorkerFormDataBoundary0\.[0-9a-z]+$/.test(form.boundary), form.parts.length, Object.keys(FormData.prototype).sort().join());
  shown(form);
  form.append('text', 'a value');
  form.append('한글', '값');
  form.append('file', http.file('content', 'na"me.txt', 'text/plain'));
  form.append('bytes', http.file(new Uint8Array([0, 1, 255]).buffer, 'b.bin'));
  form.append('view', { data: new Uint8Array([65, 66]) });
  form.append('list', { data: [67, 68], filename: 'list' });
  form.append('nothing', { data: '' });
  shown(form);
  console.log(form.body() instanceof ArrayBuffer, form.body().byteLength > 10);
  for (const call of [() => form.append('one'), () => form.append(), () => FormData().parts.length, () => { form.append('number', 5); return form.parts.length; }]) {
    try { console.log(call()); } catch (error) { console.log(`${error.name} ${error.message}`); }
  }
}
