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
