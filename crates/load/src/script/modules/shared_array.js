(length, element) => {
  'use strict';
  const indexOf = (key) => {
    if (typeof key !== 'string') return -1;
    const index = Number(key);
    return Number.isInteger(index) && index >= 0 && index < length && String(index) === key ? index : -1;
  };
  const freeze = (value) => {
    if (value !== null && typeof value === 'object' && !Object.isFrozen(value)) {
      Object.freeze(value);
      Object.values(value).forEach(freeze);
    }
    return value;
  };
  const refuse = () => { throw new TypeError('SharedArray is immutable'); };
  return new Proxy([], {
    get(target, key) {
      if (key === 'length') return length;
      const index = indexOf(key);
      return index >= 0 ? freeze(element(index)) : Reflect.get(target, key);
    },
    has: (target, key) => indexOf(key) >= 0 || Reflect.has(target, key),
    ownKeys: () => [...Array(length).keys()].map(String).concat('length'),
    getOwnPropertyDescriptor(target, key) {
      if (key === 'length') return { value: length, writable: true, enumerable: false, configurable: false };
      const index = indexOf(key);
      if (index < 0) return undefined;
      return { value: freeze(element(index)), writable: false, enumerable: true, configurable: true };
    },
    set: refuse,
    defineProperty: refuse,
    deleteProperty: refuse,
    setPrototypeOf: refuse,
    preventExtensions: refuse,
  });
}
