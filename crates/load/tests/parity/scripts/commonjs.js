const { check } = require('k6');
const http = require('k6/http');
const lib = require('./lib/plain.js');
let strict = 'sloppy';
try {
  undeclared = 5;
} catch (error) {
  strict = error.name;
}
module.exports.options = { iterations: 2 };
module.exports.default = function () {
  check(lib, { add: (l) => l.add(1, 2) === 3, whole: (l) => l.default === undefined });
  console.log(JSON.stringify([typeof http.get, typeof http.default, lib.value, strict]));
};
