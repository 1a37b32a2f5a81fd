// httpx: requests with common settings. Written anew after version 0.1.0.
import http from 'k6/http';

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH'];

/** True for results of http.url`…`. */
const isNamed = (url) =>
  typeof url === 'object' && 'name' in url && 'url' in url && 'clean_url' in url;

/** Later ones win; headers and tags one by one. */
function merged(below, above) {
  const [low, high] = [below || {}, above || {}];
  return {
    ...low,
    ...high,
    headers: { ...low.headers, ...high.headers },
    tags: { ...low.tags, ...high.tags },
  };
}

export class Request {
  constructor(method, url, params) {
    Object.assign(this, { method, url, body: params?.body || null, params: params || {} });
    delete this.params.body;
    if (isNamed(url)) {
      this.url = url.url;
      this.addTag('name', url.name);
    }
  }
  addHeader(name, value) {
    this.params.headers = { ...this.params.headers, [name]: value };
    return this;
  }
  addTag(name, value) {
    this.params.tags = { ...this.params.tags, [name]: value };
    return this;
  }
}

const of = (method) =>
  class extends Request {
    constructor(url, params) { super(method, url, params); }
  };
export const Get = of('GET');
export const Head = of('HEAD');
export const Post = of('POST');
export const Put = of('PUT');
export const Delete = of('DELETE');
export const Connect = of('CONNECT');
export const Options = of('OPTIONS');
export const Trace = of('TRACE');
export const Patch = of('PATCH');

export class Httpx {
  constructor(options = {}) {
    const {
      baseURL = '',
      errorMetricCondition = (response) => response.status >= 200 && response.status <= 399,
      errorMetric = null,
      headers = {},
      tags = {},
      ...others
    } = options;
    // As the original, removes them from the given object: a second use would differ otherwise.
    for (const name of ['baseURL', 'errorMetricCondition', 'headers', 'tags', 'errorMetric']) delete options[name];
    this.k6params = { headers, tags, ...others };
    this.baseURL = baseURL;
    this.lastRequest = { responseObject: null, responseChainDuration: null };
    this.errorMetric = errorMetric;
    this.errorMetricCondition = errorMetricCondition;
  }

  get lastRequestChainDuration() { return this.lastRequest.responseChainDuration; }
  setBaseUrl(baseURL) { this.baseURL = baseURL; }
  addHeaders(headers) { Object.assign(this.k6params.headers, headers); }
  addHeader(name, value) { this.k6params.headers[name] = value; }
  addTags(tags) { Object.assign(this.k6params.tags, tags); }
  addTag(name, value) { this.k6params.tags[name] = value; }
  clearTag(name) { delete this.k6params.tags[name]; }
  clearHeader(name) { delete this.k6params.headers[name]; }
  validateMethod(method) {
    if (!METHODS.includes(method)) {
      throw new Error(`Invalid method: ${method}. Expected one of ${METHODS}`);
    }
  }

  /** Calls `send` with the arguments of a request of k6/http. */
  #prepared(name, given, send) {
    if (given.length < 2) {
      throw new Error(`Invalid number of arguments for ${name}(). Provide at least Method and URL.`);
    }
    const [method, url, body, params] = given;
    this.validateMethod(method);
    const all = merged(this.k6params, params);
    if (isNamed(url)) all.tags.name = url.name;
    const address = isNamed(url) ? url.url : url;
    return send(method, address.startsWith('http') ? address : this.baseURL + address, body, all);
  }

  #note(response, begin) {
    this.lastRequest.responseObject = response;
    this.lastRequest.responseChainDuration = new Date() - begin;
  }

  request(...given) {
    return this.#prepared('request', given, (method, url, body, params) => {
      const begin = new Date();
      const response = http.request(method, url, body, params);
      if (this.errorMetric) {
        this.errorMetric.add(!(params.expect || this.errorMetricCondition)(response));
      }
      this.#note(response, begin);
      return response;
    });
  }
  asyncRequest(...given) {
    return this.#prepared('asyncRequest', given, (...all) => http.asyncRequest(...all));
  }
  execute(request) {
    return this.request(request.method, request.url, request.body, request.params);
  }

  /** Requests, or arrays of method, address, body and parameters. */
  batch(requests, shared) {
    const all = requests
      .filter((one) => Array.isArray(one) || one instanceof Request)
      .map((one) => {
        const [method, url, body, params] = Array.isArray(one)
          ? one
          : [one.method, one.url, one.body, one.params];
        const merge = merged(this.k6params, merged(shared, params));
        return [method, this.baseURL + url, body || null, merge];
      });
    const begin = new Date();
    const responses = http.batch(all);
    this.#note(responses, begin);
    return responses;
  }
}

for (const method of METHODS) {
  const name = method.toLowerCase();
  const define = (called, call) =>
    Object.defineProperty(Httpx.prototype, called, { value: call, writable: true, configurable: true });
  define(name, function synchronous(url, body, params) {
    return this.request(method, url, body, params);
  });
  define(`async${method[0]}${name.slice(1)}`, function asynchronous(url, body, params) {
    return this.asyncRequest(method, url, body, params);
  });
}
