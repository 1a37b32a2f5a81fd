import { parseHTML } from 'k6/html';
import http from 'k6/http';

export const options = { iterations: 1 };
const page = open('./lib/page.html');

// Methods of elements without arguments.
const NAMES = [
  'hasAttributes', 'toString', 'hasChildNodes', 'textContent', 'id', 'nodeName', 'firstElementChild', 'lastElementChild',
  'previousElementSibling', 'nextElementSibling', 'parentNode', 'parentElement', 'childNodes', 'children',
  'childElementCount', 'classList', 'className', 'lang', 'ownerDocument', 'namespaceURI', 'isDefaultNamespace', 'innerHTML', 'nodeType', 'nodeValue',
  'download', 'referrerPolicy', 'rel', 'href', 'target', 'type', 'accessKey', 'hrefLang', 'hash', 'host', 'hostname', 'port', 'username', 'password',
  'origin', 'pathname', 'protocol', 'relList', 'search', 'text', 'autoplay', 'controls', 'loop', 'muted', 'preload', 'src', 'crossOrigin', 'currentSrc',
  'defaultMuted', 'mediaGroup', 'textTracks', 'form', 'formAction', 'formEnctype', 'formMethod', 'formNoValidate', 'formTarget', 'labels', 'name',
  'autofocus', 'disabled', 'tabIndex', 'value', 'width', 'height', 'options', 'cite', 'datetime', 'validity', 'elements', 'action', 'enctype', 'encoding',
  'acceptCharset', 'autocomplete', 'noValidate', 'length', 'method', 'allowfullscreen', 'sizes', 'srcset', 'alt', 'isMap', 'useMap', 'required',
  'checked', 'defaultChecked', 'accept', 'maxLength', 'size', 'pattern', 'placeholder', 'readonly', 'readOnly', 'min', 'max', 'defaultValue', 'dirName',
  'multiple', 'step', 'list', 'challenge', 'keytype', 'htmlFor', 'control', 'hreflang', 'media', 'areas', 'images', 'content', 'httpEquiv', 'high',
  'low', 'optimum', 'data', 'typeMustMatch', 'reversed', 'start', 'label', 'defaultSelected', 'selected', 'index', 'position', 'charset', 'async',
  'defer', 'noModule', 'selectedOptions', 'selectedIndex', 'keySystem', 'sortable', 'caption', 'tHead', 'tFoot', 'rows', 'tBodies', 'cells', 'rowIndex',
  'sectionRowIndex', 'span', 'colSpan', 'rowSpan', 'headers', 'cellIndex', 'abbr', 'scope', 'sorted', 'cols', 'autocapitalize', 'wrap', 'kind', 'srclang',
  'default',
];

const told = (value) => {
  if (value === undefined) return 'undefined';
  if (value === null) return 'null';
  if (Array.isArray(value)) return value.map(told);
  if (typeof value === 'object' && typeof value.nodeName === 'function') return `<${value.nodeName()} ${value.id()}>`;
  return value;
};

function tell(title, doc, selector) {
  doc.find(selector).each((index, element) => {
    const found = NAMES.filter((name) => typeof element[name] === 'function').map((name) => [name, told(element[name]())]);
    console.log(title, element.nodeName(), JSON.stringify(found));
  });
}

export default function () {
  const doc = parseHTML(page);
  tell('alone', doc, '*');
  const response = http.get(`${__ENV.URL}/pages/all?query=1`);
  const served = response.html();
  console.log('url', served.url.replace(__ENV.URL, ''));
  const links = [];
  served.find('a, base, img, form, input[type=submit], #b1, link, iframe').each((index, element) => {
    for (const name of ['href', 'host', 'pathname', 'search', 'hash', 'origin', 'protocol', 'src', 'currentSrc', 'action', 'formAction', 'toString']) {
      if (typeof element[name] === 'function') links.push(`${element.nodeName()} ${name} ${element[name]()}`.split(__ENV.URL).join('URL').split(__ENV.URL.slice(7)).join('HOST'));
    }
  });
  links.forEach((line) => console.log(line));
  console.log(JSON.stringify(told(response.html('h1').get())), response.html('h1').text());

  const top = doc.find('#top').get(0);
  const list = doc.find('#list').get(0);
  console.log(JSON.stringify([
    top.getAttribute('id'), told(top.getAttribute('x')), top.hasAttribute('id'), top.hasAttribute('x'), told(top.getAttributeNode('x')),
    told(list.getElementsByClassName('odd')), told(list.getElementsByTagName('span')), told(list.querySelector('li')), told(list.querySelector('x')),
    told(list.querySelectorAll('li')), list.contains(doc.find('span').get(0)), list.contains(list), list.contains(top), list.matches('ul'), list.matches('ol'),
    list.isEqualNode(list), list.isEqualNode(top), top.isEqualNode(top), top.isSameNode(doc.find('h1').get(0)), list.isSameNode(doc.find('#list').get(0)), list.isSameNode(top), list.selection().size(),
  ]));
  console.log(JSON.stringify(['firstChild', 'lastChild', 'previousSibling', 'nextSibling'].map((name) => told(list[name]()))));
  const node = list.getAttributeNode('type');
  console.log(JSON.stringify([node.name, node.value, node.prefix(), node.namespaceURI(), node.localName(), node.owner_element.nodeName()]));
  console.log(JSON.stringify(Object.keys(list.attributes()).sort()), list.attributes().id.value);
}
