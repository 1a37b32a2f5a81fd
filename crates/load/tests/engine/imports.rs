//! Modules: CommonJS beside ES modules, `require()`, and what is imported by URL.

use madang_load::{ExitStatus, vendor};

use crate::support::{Script, Server, ok, response};

#[test]
fn a_script_may_be_commonjs() {
    let server = Server::start(|_| ok("x"));
    let ran = Script::new(
        "const http = require('k6/http');
         const { check } = require('k6');
         const lib = require('./lib.js');
         try { sloppy = 1; throw null; } catch (error) { if (error?.name !== 'ReferenceError') throw new Error('not strict'); }
         exports.options = { iterations: 2 };
         module.exports.default = function () {
             check(http.get(__ENV.URL), {
                 status: (r) => r.status === 200,
                 lib: () => lib.add(1, 2) === 3 && lib === require === false,
             });
         };",
    )
    .file("lib.js", "module.exports = { add: (a, b) => a + b };")
    .against(&server)
    .run();
    ran.assert_all_checks_passed();
    assert_eq!(ran.report().iterations.complete, 2);
}

#[test]
fn types_are_taken_out_of_typescript() {
    let files = |script: &str| {
        let mut ran = Script::body("").file("load.ts", script).file(
            "one.ts",
            "export interface One { one: number } export enum Kind { A = 'a' } export const one: One = { one: 1 };",
        );
        ran.config.script = ran.path("load.ts");
        ran.run()
    };
    let ran = files(
        "import { check } from 'k6'; import { Options } from 'k6/options'; import { one, One, Kind } from './one.ts';
         export const options: Options = { iterations: 2 };
         export default function (): void { const known: One = one; check(known, { it: (a: One) => a.one === 1 && Kind.A === 'a' }); }",
    );
    ran.assert_all_checks_passed();
    assert_eq!(ran.report().iterations.complete, 2);
    let ran = files(
        "interface Unused {\n  a: string;\n}\n\nimport { sleep } from 'k6';\nimport * as k6 from 'k6';\n\n\
         type Text = string;\nconst fails = (text: Text): never => {\n  k6.nothing;\n  throw new Error(text);\n};\n\
         export default function (): void {\n  sleep(0);\n  fails('told');\n}\n",
    );
    let told = ran.messages.join("");
    assert!(told.contains("load.ts, line 10: `k6` has no member `nothing`"), "{told}");
    // Where the files say it, not the text without types.
    assert!(told.contains("load.ts:11:") && told.contains("load.ts:15:"), "{told}");
    let ran = files("export const a = 1;\nexport const b: = 2;");
    assert!(ran.said("SyntaxError") && ran.said("load.ts:2"), "{:?}", ran.messages);
    assert_eq!(ran.status, ExitStatus::ScriptException);
}

#[test]
fn a_member_that_no_module_has_is_named_before_the_test_begins() {
    let ran = Script::new(
        "import http, { get } from 'k6/http'; import * as k6 from 'k6';
         const { sleeep } = k6;
         const client = http;
         export default function () { if (client.gett) sleeep(1); client.post; (k6) => k6.nothing; }",
    )
    .run();
    assert!(ran.said("script.js, line 2: `k6` has no member `sleeep`"), "{:?}", ran.messages);
    assert!(ran.said("script.js, line 4: `k6/http` has no member `gett`"), "{:?}", ran.messages);
    let told = ran.messages.iter().filter(|message| message.contains("has no member"));
    assert_eq!(told.count(), 2, "{:?}", ran.messages);
    assert_eq!(ran.status, ExitStatus::Success);
}

#[test]
fn members_of_every_module_and_of_what_they_export_are_looked_for() {
    let modules = [
        "html", "ws", "websockets", "secrets", "experimental/fs", "experimental/csv",
        "experimental/redis", "experimental/websockets",
    ];
    let imports = modules.iter().enumerate().map(|(at, name)| {
        format!(
            "import {{ nope as n{at} }} from 'k6/{name}'; import m{at} from 'k6/{name}'; m{at}.no;"
        )
    });
    let imports: String = imports.collect();
    let ran = Script::new(&format!(
        "{imports} import exec from 'k6/execution'; import {{ vu, test as t }} from 'k6/execution';
         export default function () {{
             if ([n0, n1, n2, n3, n4, n5, n6, n7].some((one) => one !== null)) throw new Error('one is there');
             exec.vu.nope; exec.scenario.nope; exec.instance.nope; vu.metrics.nope; t.nope;
         }}"
    ))
    .run();
    assert_eq!(ran.status, ExitStatus::Success, "{:?}", ran.messages);
    for name in modules {
        for member in ["nope", "no"] {
            let told = format!("line 1: `k6/{name}` has no member `{member}`");
            assert!(ran.said(&told), "{told}: {:?}", ran.messages);
        }
    }
    for object in ["vu", "scenario", "instance", "vu.metrics", "test"] {
        let told = format!("line 4: `k6/execution.{object}` has no member `nope`");
        assert!(ran.said(&told), "{told}: {:?}", ran.messages);
    }
}

#[test]
fn members_that_there_are_are_not_warned_of() {
    let ran = Script::new(
        "import exec from 'k6/execution'; import secrets from 'k6/secrets'; import { check } from 'k6';
         export default function () {
             const { vu, scenario, instance, test } = exec;
             vu.idInInstance; vu.idInTest; vu.iterationInInstance; vu.iterationInScenario; vu.tags.any;
             vu.metrics.tags.any; vu.metrics.metadata.any; vu.hasOwnProperty('tags');
             scenario.name; scenario.executor; scenario.startTime; scenario.progress;
             scenario.iterationInInstance; scenario.iterationInTest;
             instance.currentTestRunDuration; instance.iterationsCompleted; instance.iterationsInterrupted;
             instance.vusActive; instance.vusInitialized; test.abort; test.fail; test.options.scenarios;
             secrets.get; secrets.source;
             const counts = [6, 6, 5, 3];
             check([vu, scenario, instance, test], {
                 all: (found) => found.every((one, at) => Object.keys(one).length === counts[at]),
             });
         }",
    );
    let ran = ran.run();
    assert!(!ran.said("has no member"), "{:?}", ran.messages);
    ran.assert_all_checks_passed();
}

/// All but the first are given what the first has compiled.
#[test]
fn all_virtual_users_have_the_same_script() {
    let script = "import { check } from 'k6'; import exec from 'k6/execution'; import { shared, Kind } from './lib.js';
        import plain from './plain.cjs';
        export const options = { scenarios: { all: { executor: 'per-vu-iterations', vus: 4, iterations: 2 } } };
        class One { #private = 7n; static count = 0; get value() { One.count++; return this.#private; } }
        const tag = (strings, ...values) => strings.raw.join('|') + values.length;
        function* steps() { yield 1; yield* [2, 3]; }
        const made = await Promise.resolve({ a: [1, , 3], b: /x(?<n>\\d+)/iu, c: 'ü\\u{1F600}', d: -0, e: 1e300 });
        export default async function () {
            check(null, {
                classes: () => new One().value === 7n && One.count > 0,
                templates: () => tag`a${1}\\n${2}` === 'a|\\\\n|2',
                generators: () => [...steps()].join() === '1,2,3',
                values: () => made.b.exec('x12').groups.n === '12' && !(1 in made.a) && Object.is(made.d, -0) && made.c.length === 3,
                imports: () => shared(1) === 2 && Kind.A === 'a' && plain.one === 1,
                own: () => { One.mark = One.mark || exec.vu.idInTest; return One.mark === exec.vu.idInTest; },
            });
            if (exec.vu.iterationInScenario === 1) throw new Error('with a line');
        }";
    let ran = Script::new(script)
        .file("lib.js", "export const shared = (n) => n + 1; export class Kind { static A = 'a'; }")
        .file("plain.cjs", "exports.one = 1;")
        .run();
    ran.assert_all_checks_passed();
    let lines: Vec<_> = ran.messages.iter().filter(|line| line.contains("with a line")).collect();
    assert_eq!(lines.len(), 4, "{:?}", ran.messages);
    assert!(lines.iter().all(|line| line.contains("script.js:17:")), "{lines:?}");
}

#[test]
fn an_es_module_imports_commonjs_by_name_and_as_a_whole() {
    Script::new(
        "import { check } from 'k6';
         import whole, { a } from './plain.js';
         import marked, { b } from './marked.js';
         import * as all from './marked.js';
         import once from './once.js';
         export default function () { check(null, {
             plain: () => a === 1 && whole.a === 1 && whole['x-y'] === 2,
             marked: () => marked() === 7 && b === 2 && all.b === 2 && all.default === marked,
             once: () => once.count === 1,
         }); }",
    )
    .file("plain.js", "module.exports = { a: 1, 'x-y': 2 }; require('./once.js');")
    .file("marked.js", "exports.__esModule = true; exports.default = () => 7; exports.b = 2;")
    .file(
        "once.js",
        "globalThis.runs = (globalThis.runs || 0) + 1; exports.count = globalThis.runs;",
    )
    .run()
    .assert_all_checks_passed();
}

#[test]
fn commonjs_may_require_es_modules_itself_and_each_other() {
    Script::new(
        "import { check } from 'k6';
         import first from './first.js';
         export default function () { check(null, {
             named: () => first.named === 5 && first.esm.default === 6,
             circle: () => first.second.early === 'before' && first.second.first.late === 'after',
         }); }",
    )
    .file(
        "first.js",
        "exports.step = 'before'; exports.second = require('./sub/second.js'); exports.late = 'after';
         exports.esm = require('./esm.js'); exports.named = exports.esm.named;",
    )
    .file_in("sub", "second.js", "const first = require('../first.js'); exports.early = first.step; exports.first = first;")
    .file("esm.js", "export const named = 5; export default 6;")
    .run()
    .assert_all_checks_passed();
}

#[test]
fn what_cannot_be_required_is_told() {
    for (text, told) in [
        ("require('./none.js')", "none.js"),
        ("require('')", "empty specifier"),
        ("require('lodash')", "importing the package `lodash`"),
        ("require('k6/nothing')", "unknown module: k6/nothing"),
        ("require('./null.js')", "exports must be an object"),
        ("require('./throws.js')", "from the library"),
    ] {
        let ran = Script::new(&format!("{text}; exports.default = () => {{}};"))
            .file("null.js", "module.exports = null;")
            .file("throws.js", "throw new Error('from the library');")
            .run();
        assert!(ran.said(told), "{text}: {:?}", ran.messages);
        assert_ne!(ran.status, ExitStatus::Success, "{text}");
    }
    let ran = Script::new("exports.default = () => require('k6');").run();
    assert!(ran.said("only available in the init stage"), "{:?}", ran.messages);
}

#[test]
fn what_is_imported_by_url_is_fetched_once_and_must_stay_as_it_was() {
    let server = Server::start(|request| match request.path() {
        "/lib/bundle.js" => ok("import { inner } from './inner.js';
             import { randomIntBetween } from 'https://jslib.k6.io/k6-utils/1.4.0/index.js';
             export const seven = () => inner.six + randomIntBetween(1, 1);"),
        "/lib/inner.js" => ok("exports.inner = { six: 6 };"),
        _ => response("404 Not Found", "", ""),
    });
    let script = || {
        Script::new(&format!(
            "import {{ check }} from 'k6'; import {{ seven }} from '{}';
             export default () => {{ check(null, {{ seven: () => seven() === 7 }}); }};",
            server.url("/lib/bundle.js")
        ))
    };
    let unfetched = script().run();
    assert!(unfetched.said("`madang load vendor "), "{:?}", unfetched.messages);

    let mut script = script();
    let mut told = Vec::new();
    let lock =
        vendor(&script.path("script.js"), |url, _| told.push(url.to_owned())).unwrap().unwrap();
    assert_eq!(told, [server.url("/lib/bundle.js"), server.url("/lib/inner.js")]);
    let fetched = server.requests().len();
    let directory = lock.parent().unwrap().to_owned();
    script.run_once().assert_all_checks_passed();
    assert_eq!(server.requests().len(), fetched, "a run asks nobody");

    let bundle = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    let bundle =
        bundle.into_iter().find(|path| path.to_string_lossy().ends_with("-bundle.js")).unwrap();
    let text = std::fs::read_to_string(&bundle).unwrap();
    std::fs::write(&bundle, text + "// changed").unwrap();
    let changed = script.run_once();
    assert!(changed.said("its SHA-256 is another one"), "{:?}", changed.messages);
}

#[test]
fn a_module_that_cannot_be_fetched_is_told_with_its_address() {
    let server = Server::start(|_| response("404 Not Found", "", ""));
    let script =
        Script::new(&format!("import '{}'; export default () => {{}};", server.url("/a.js")));
    let error = vendor(&script.path("script.js"), |_, _| ()).unwrap_err().to_string();
    assert!(error.contains("/a.js: the answer is 404"), "{error}");
    let nothing = Script::new("import 'k6'; export default () => {};");
    assert_eq!(vendor(&nothing.path("script.js"), |_, _| ()).unwrap(), None);
}

#[test]
fn forms_are_written_as_the_library_formdata_writes_them() {
    let server = Server::start(|_| ok(""));
    let script = Script::new(
        "import http from 'k6/http'; import { check } from 'k6';
         import { FormData } from 'https://jslib.k6.io/formdata/0.0.2/index.js';
         export default function () {
            const form = new FormData();
            form.append('text', 'value');
            form.append('file', http.file('data', 'a\"b.txt', 'text/plain'));
            form.append('bytes', { data: new Uint8Array([104, 105]).buffer, filename: 'x' });
            form.append('list', { data: [33] });
            check(FormData(), { 'without new': (f) => f instanceof FormData });
            check(null, { arguments: () => { try { form.append('x'); } catch (e) { return e.name === 'SyntaxError'; } } });
            http.post(__ENV.URL, form.body(), {
                headers: { 'Content-Type': `multipart/form-data; boundary=${form.boundary}` } });
         }",
    );
    script.against(&server).run().assert_all_checks_passed();
    let [request] = &server.requests()[..] else { panic!("one request") };
    let boundary = request.header("content-type").unwrap().split_once("boundary=").unwrap().1;
    let part = |name: &str, kind: &str, value: &str| {
        format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\r\nContent-Type: {kind}\r\n\r\n{value}\r\n"
        )
    };
    let expected = [
        part("text\"", "application/octet-stream", "value"),
        part("file\"; filename=\"a%22b.txt\"", "text/plain", "data"),
        part("bytes\"; filename=\"x\"", "application/octet-stream", "hi"),
        part("list\"", "application/octet-stream", "!"),
        format!("--{boundary}--\r\n"),
    ];
    assert_eq!(request.body, expected.concat());
}

#[test]
fn sessions_of_httpx_add_what_requests_have_in_common() {
    let server = Server::start(|_| ok("fine"));
    let script = Script::new(
        "import http from 'k6/http'; import { check } from 'k6'; import { Rate } from 'k6/metrics';
         import { Httpx, Get, Post } from 'https://jslib.k6.io/httpx/0.1.0/index.js';
         const failed = new Rate('failed');
         export default async function () {
            const session = new Httpx({
                baseURL: __ENV.URL, headers: { 'X-A': '1' }, tags: { t: 'x' }, errorMetric: failed,
                errorMetricCondition: (r) => r.status === 201 });
            session.addHeader('X-B', '2');
            const r = session.post('/a', 'body', { headers: { 'X-A': '3' }, tags: { name: 'posted' } });
            check(r, { body: (r) => r.body === 'fine', duration: () => session.lastRequestChainDuration >= 0 });
            session.clearHeader('X-B');
            session.get(http.url`${__ENV.URL}/id/${7}`);
            await session.asyncGet('/b');
            session.batch([new Get('/c').addHeader('X-C', '4'), ['POST', '/d', 'd', null], new Post('/e', { body: 'e' })],
                { headers: { 'X-D': '5' } });
            check(null, { method: () => { try { session.request('LOOK', '/'); } catch (e) { return e.message.startsWith('Invalid method: LOOK. Expected one of GET,HEAD'); } } });
         }",
    );
    let ran = script.against(&server).run();
    ran.assert_all_checks_passed();
    let told: Vec<String> = server
        .requests()
        .iter()
        .map(|request| {
            let headers =
                ["x-a", "x-b", "x-c", "x-d"].map(|name| request.header(name).unwrap_or("-"));
            format!("{} {} {}", request.line, headers.join(""), request.body)
        })
        .collect();
    assert_eq!(told[..3], ["POST /a 32-- body", "GET /id/7 1--- ", "GET /b 1--- "]);
    let mut batch = told[3..].to_vec();
    batch.sort();
    assert_eq!(batch, ["GET /c 1-45 ", "POST /d 1--5 d", "POST /e 1--5 e"]);
    assert!(ran.report().names.contains_key("posted"), "{:?}", ran.report().names);
    let failed = &ran.report().metrics["failed"];
    assert!(format!("{failed:?}").contains("passes: 2"), "{failed:?}");
}

#[test]
fn addresses_are_those_of_browsers() {
    let script = Script::new(
        "import { check } from 'k6';
         import { URL, URLSearchParams } from 'https://jslib.k6.io/url/1.0.0/index.js';
         const same = (label, found, expected) =>
            check(found, { [`${label}: ${found}`]: () => found === expected });
         export default function () {
            const url = new URL('../b?x=1&y=a+b#h', 'HTTP://Me:S%40@Example.COM:80/a/c/');
            same('href', String(url), 'http://Me:S%40@example.com/a/b?x=1&y=a+b#h');
            for (const [name, expected] of Object.entries({ origin: 'http://example.com', protocol: 'http:',
                username: 'Me', password: 'S%40', host: 'example.com', hostname: 'example.com', port: '',
                pathname: '/a/b', search: '?x=1&y=a+b', hash: '#h' })) same(name, url[name], expected);
            url.searchParams.append('z', 'é&');
            same('appended', url.search, '?x=1&y=a+b&z=%C3%A9%26');
            url.searchParams.delete('x');
            url.pathname = '/ä b';
            url.port = '8080';
            url.hash = '';
            same('changed', JSON.stringify(url), '\"http://Me:S%40@example.com:8080/%C3%A4%20b?y=a+b&z=%C3%A9%26\"');
            url.search = '?q=1';
            same('reloaded', url.searchParams.get('q') + url.searchParams.get('y'), '1null');
            url.port = 'none';
            same('a part that cannot be', url.port, '8080');
            const params = new URLSearchParams({ b: '2', a: '1~*' });
            params.append('b', '3');
            params.sort();
            same('params', params.toString(), 'a=1%7E*&b=2&b=3');
            same('all', params.getAll('b').join() + params.has('b', '3') + params.size, '2,3true3');
            params.set('b', 'x');
            same('set', [...params].join(';'), 'a,1~*;b,x');
            same('pairs', String(new URLSearchParams([['a', 'b'], ['c', 'd']])), 'a=b&c=d');
            let told; try { new URL('/no/base'); } catch (error) { told = `${error.name} ${error.message}`; }
            same('error', told, 'TypeError Invalid URL: /no/base');
            same('can', `${URL.canParse('x:')} ${URL.canParse('//')}`, 'true false');
            same('members', Object.getOwnPropertyNames(URL).sort().join(), 'canParse,length,name,prototype');
         }",
    );
    script.run().assert_all_checks_passed();
}

#[test]
fn what_one_virtual_user_has_compiled_serves_the_others() {
    let script = Script::new(
        "import { describe, expect } from 'https://jslib.k6.io/k6chaijs/4.3.4.3/index.js';
         import { URL } from 'https://jslib.k6.io/url/1.0.0/index.js';
         import { ReadableStream } from 'k6/experimental/streams';
         import { parseHTML } from 'k6/html';
         import exec from 'k6/execution';
         import { check } from 'k6';
         import count, { where } from './plain.js';
         export const options = { scenarios: { s: { executor: 'per-vu-iterations', vus: 3, iterations: 2 } } };
         export default function () {
            check(null, {
                'a module of each virtual user': () => count() === exec.vu.iterationInScenario + 1,
                'its lines': () => /plain.js:3/.test(where()),
                'its text': () => String(count).includes('calls += 1'),
                'chai': () => describe('chai', () => expect([1]).to.deep.equal([1])),
                'url': () => new URL('http://a.example/b?c').pathname === '/b',
                'html': () => parseHTML('<p>x</p>').find('p').get(0).textContent() === 'x',
                'streams': () => new ReadableStream({}).locked === false,
            });
         }",
    )
    .file(
        "plain.js",
        "let calls = 0;
         exports.default = () => { calls += 1; return calls; };
         exports.where = () => new Error('x').stack;",
    );
    let ran = script.run();
    ran.assert_all_checks_passed();
    assert_eq!(ran.check("a module of each virtual user"), (6, 0));
}
