import http from 'k6/http';
import { check } from 'k6';

export const options = { iterations: 1 };
const url = __ENV.URL;

export default function () {
  const told = (response) => [response.status, response.request.method, response.url.replace(url, ''), response.body];
  const page = http.get(`${url}/pages/all`);
  check(page, { 'has a title': (response) => response.html('title').text() === 'A & B' });
  console.log(JSON.stringify(told(page.submitForm({ formSelector: '#f1', params: { headers: { 'X-One': '1' } } }))));
  console.log(JSON.stringify(told(page.submitForm({ formSelector: '#f1', submitSelector: '#b1', fields: { text1: 'other', added: 'a b' } }))));
  const search = http.get(`${url}/pages/search`);
  console.log(JSON.stringify(told(search.submitForm())));
  console.log(JSON.stringify(told(search.submitForm({ fields: { q: 'ä &' } }))));
  console.log(JSON.stringify(told(search.submitForm({ formSelector: 'form:last-of-type' }))));
  console.log(JSON.stringify(told(search.clickLink())));
  console.log(JSON.stringify(told(search.clickLink({ selector: '#rel', params: { tags: { a: 'b' } } }))));
  console.log(JSON.stringify(told(search.clickLink({ selector: 'a:last-of-type' }))));
  for (const wrong of [
    () => search.submitForm({ formSelector: '#none' }), () => search.clickLink({ selector: '#none' }), () => search.clickLink({ selector: 'form' }),
    () => http.get(url, { responseType: 'none' }).html(),
  ]) {
    try {
      wrong();
      console.log('no error');
    } catch (error) {
      console.log(String(error.message).split(url).join('URL'));
    }
  }
  const bytes = http.get(`${url}/html`, { responseType: 'binary' });
  console.log(bytes.html('h1').text(), bytes.html().find('h1').attr('x', 'none'));
}
