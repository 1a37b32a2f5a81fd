use proptest::prelude::*;

use super::*;

fn js(source: &str) -> Syntax {
    read(source.to_owned(), Language::JavaScript, "test.js").unwrap().0
}

fn ts(source: &str) -> String {
    read(source.to_owned(), Language::TypeScript, "test.ts").unwrap().1
}

fn members(source: &str) -> Vec<String> {
    let uses = js(source).uses.into_iter();
    uses.map(|used| format!("{}.{}:{}", used.module, used.member, used.line)).collect()
}

#[test]
fn named_default_and_namespace_imports_are_followed() {
    for (source, expected) in [
        ("import { a, b as c } from 'm';", &["m.a:1", "m.b:1"][..]),
        ("import d, { e } from \"m\";\nd.x(); y.d.z; d?.w", &["m.e:1", "m.x:2", "m.w:2"]),
        ("import * as n from 'm'\n\nn\n .x", &["m.x:4"]),
        ("import { default as n } from 'm'; n['x']; n[`y`]", &["m.x:1", "m.y:1"]),
        ("import 'm'; import('m').x; import.meta", &[]),
        ("export { a, b as c } from 'm'", &["m.a:1", "m.b:1"]),
    ] {
        assert_eq!(members(source), expected, "{source}");
    }
}

#[test]
fn other_names_destructuring_and_scopes_are_followed() {
    let source = "import n from 'm'; const k = n; const { a, b: c } = k; let d; k.e; d = n;
        function f(n) { n.not; const k = {}; k.not; } function g() { return n.h }";
    assert_eq!(members(source), ["m.a:1", "m.b:1", "m.e:1", "m.h:2"]);
    let required = "const n = require('m'); n.a; const { b } = require('m'); require('m').c()";
    assert_eq!(members(required), ["m.a:1", "m.b:1", "m.c:1"]);
}

#[test]
fn other_expressions_for_a_module_are_followed() {
    for (source, expected) in [
        ("let c; c = n; c.x", vec!["m.x"]),
        ("const o = { n, p: n }; o.n.x; o.p['y']", vec!["m.x", "m.y"]),
        ("({ n }).n.x; ({ 'p': n }.p.y)", vec!["m.x", "m.y"]),
        ("function f(h, k) { h.x; k.y } f(n); f(n, 1)", vec!["m.x"]),
        ("function f({ x: { y } }) { y.z } f(n)", vec!["m.x", "m.x.y.z"]),
        ("import * as all from 'm'; all.default.x", vec!["m.x"]),
        (
            "n.x.y; const { x } = n; x.z; const { x: { w } } = n",
            vec!["m.x", "m.x.y", "m.x.z", "m.x.w"],
        ),
        ("import { v } from 'm'; v.x; v.y.z", vec!["m.v", "m.v.x", "m.v.y", "m.v.y.z"]),
        ("const a = await import('m'); a.x", vec!["m.x"]),
        ("const p = q; const q = r; const r = n; p.x", vec!["m.x"]),
    ] {
        let mut expected = expected.iter().map(|one| format!("{one}:1")).collect::<Vec<_>>();
        let mut found = members(&format!("import n from 'm'; {source}"));
        found.sort();
        expected.sort();
        for one in expected {
            assert!(found.contains(&one), "{source}: {one} is not among {found:?}");
        }
    }
}

#[test]
fn ambiguous_names_are_not_followed() {
    for source in [
        "let c; c = n; c = other; c.x",
        "let c = other; c = n; c.x",
        "function f(h) { h.x } f(n); f(other)",
        "export function f(h) { h.x } f(n)",
        "const g = function f(h) { h.x; f(n) }; g(other)",
        "function f(h) { h.x } f(n); list.map(f)",
        "function f(h = other) { h.x } f(n); f()",
        "const o = { ...n }; o.n.x",
        "c.x; n().x; n.a().x",
    ] {
        let found = members(&format!("import n from 'm'; {source}"));
        assert!(!found.iter().any(|one| one.ends_with(".x:1")), "{source}: {found:?}");
    }
}

#[test]
fn comments_texts_and_regular_expressions_are_not_code() {
    let source = "import h from 'm';
        // h.a
        /* h.b */ 'h.c' + \"h.d\" + `h.e ${ h.f + `${ h.g }` } h.i`;
        let x = /h.j[/'\"]/; let y = 4 / h.k / 'h.l'; f(/h.m'/.test(h.n))";
    assert_eq!(members(source), ["m.f:3", "m.g:3", "m.k:4", "m.n:4"]);
}

#[test]
fn a_module_imports_exports_or_awaits() {
    for module in [
        "import 'm'",
        "const a = 1;\nexport { a }",
        "export default function () {}",
        "await x()",
        "import { a } from 'm'; f(a)",
        "for await (const a of b) {}",
        "f(`${a} ${b}`); g`${c}`; export default 1",
        "if (a) /[(]/.test(b); export const c = 1",
    ] {
        assert!(js(module).is_module, "{module}");
    }
    for other in [
        "",
        "exports.default = function () {}",
        "module.exports = { export: 1, import: 2 }",
        "// export default 1",
        "import('m').then(f)",
        "async function f() { await g() }",
        "const a = async () => { await g() }",
        "a.export = 1; a.import()",
        "const s = `export default`",
        "const s = `${a}${`${b}`}`; exports.a = `${c}`",
    ] {
        assert!(!js(other).is_module, "{other}");
    }
}

#[test]
fn specifiers_are_those_of_all_ways_to_import() {
    let source = "import a from 'a'; import 'b'; export * from \"c\"; const d = require('d');
        import('e'); x = 'from'; // import 'f'
        import { g as from } from 'g'";
    assert_eq!(js(source).specifiers, ["a", "b", "c", "d", "e", "g"]);
}

#[test]
fn variables_are_known_unless_a_name_is_computed() {
    for (source, known) in [
        ("nothing()", ""),
        ("__ENV.A; globalThis.__ENV['B']; __ENV?.C; __ENV?.[\"D\"]; // __ENV.E", "A B C D"),
        ("`${__ENV.A}/${__ENV.B || '__ENV.C'}`", "A B"),
        ("const { A, B: b } = __ENV; const { C } = globalThis.__ENV", "A B C"),
    ] {
        let known = known.split_whitespace().map(str::to_owned).collect();
        assert_eq!(js(source).variables, Some(known), "{source}");
    }
    for computed in [
        "const { A, ...rest } = __ENV;",
        "const { [a]: b } = __ENV;",
        "__ENV[`${a}`]",
        "__ENV['A' + b]",
        "Object.keys(__ENV)",
        "__ENV",
    ] {
        assert_eq!(js(computed).variables, None, "{computed}");
    }
}

#[test]
fn types_are_removed_and_their_run_time_parts_stay() {
    let source = "import http, { RefinedResponse } from 'k6/http'; import { Options } from 'k6/options';
        import type { A } from './a'; interface B { c: number }
        export const options: Options = { vus: 1 } as const;
        enum Kind { One, Two = 5, Three } enum Name { X = 'x' }
        class C<T> { constructor(private readonly d: T, public e?: number) {} f(): T { return this.d!; } }
        declare const g: string; abstract class D { abstract h(): void }
        namespace N { export const i = 1 }
        export default function (data: { j: string }): void { const r = http.get<'text'>('') satisfies unknown; }";
    let (syntax, code) = read(source.to_owned(), Language::TypeScript, "test.ts").unwrap();
    assert_eq!(syntax.specifiers, ["k6/http"]);
    assert!(syntax.is_module);
    for gone in [
        "RefinedResponse", "Options ", "interface", "private", "declare", "satisfies", "abstract",
        "<T>",
    ] {
        assert!(!code.contains(gone), "{gone}: {code}");
    }
    for kept in ["this.d = d", "this.e = e", "\"One\"", "6", "\"x\""] {
        assert!(code.contains(kept), "{kept}: {code}");
    }
}

#[test]
fn invalid_typescript_is_reported_with_its_line() {
    let error = read("const a = 1;\nlet b: = 2;".to_owned(), Language::TypeScript, "test.ts");
    let error = error.unwrap_err().to_string();
    assert!(error.contains("SyntaxError") && error.contains("test.ts:2"), "{error}");
    // A type is gone, and its name is no import.
    assert!(!ts("type A = string; let a: A = ''").contains("type"));
}

#[test]
fn a_script_of_any_nesting_is_read_or_refused() {
    for nested in ["[".repeat(2_000_000), "(".repeat(30_000) + &")".repeat(30_000)] {
        let error = read(nested, Language::JavaScript, "test.js").unwrap_err().to_string();
        assert!(error.contains("test.js is nested too deeply"), "{error}");
    }
    let deep = "[".repeat(15_000) + &"]".repeat(15_000);
    assert!(!js(&deep).is_module);
    let long = "let a = 1".to_owned() + &"+1".repeat(100_000) + &";!".repeat(20_000) + "1";
    assert!(!js(&long).is_module);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "[ \\n'\"`${}()/\\\\a-c.é:;<>=]{0,60}") {
        for language in [Language::JavaScript, Language::TypeScript] {
            let _ = read(text.clone(), language, "test");
            let _ = read(format!("__ENV{text}"), language, "test");
        }
    }
}
