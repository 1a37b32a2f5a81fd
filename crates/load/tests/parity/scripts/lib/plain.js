exports.add = (a, b) => a + b;
exports.value = 'plain';
