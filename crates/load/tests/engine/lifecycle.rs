//! Modules, globals, exports: what a script finds around it.

use madang_load::{ConfigFile, ExitStatus, Layer};

use crate::support::Script;

#[test]
fn files_beside_the_script_can_be_imported() {
    Script::new(
        "import { check } from 'k6';
         import { two } from './lib/two.js';
         import one, * as all from './one.js';
         export default function () { check(null, { sum: () => one + two + all.three === 6 }); }",
    )
    .file("one.js", "export default 1; export const three = 3;")
    .file_in("lib", "two.js", "import one from '../one.js'; export const two = one + 1;")
    .run()
    .assert_all_checks_passed();
}

#[test]
fn an_import_that_is_not_there_is_told_by_name() {
    let ran = Script::new("import './nothing.js'; export default function () {}").run();
    assert!(ran.said("nothing.js"), "{:?}", ran.messages);
    assert_eq!(ran.status, ExitStatus::ScriptException);
}

#[test]
fn virtual_users_and_iterations_are_numbered() {
    let layer = Layer { vus: Some(2), iterations: Some(6), ..Layer::default() };
    let ran = Script::new(
        "import { check } from 'k6';
         let last = -1;
         export default function () {
            check(null, { vu: () => __VU === 1 || __VU === 2, iteration: () => __ITER === last + 1 });
            last = __ITER;
         }",
    )
    .options(layer)
    .run();
    ran.assert_all_checks_passed();
    assert_eq!(ran.report().iterations.complete, 6);
}

#[test]
fn every_virtual_user_has_its_own_globals() {
    let layer = Layer { vus: Some(5), iterations: Some(50), ..Layer::default() };
    Script::new(
        "import { check } from 'k6';
         let mine = null;
         export default function () {
            if (mine === null) mine = __VU;
            check(null, { own: () => mine === __VU });
         }",
    )
    .options(layer)
    .run()
    .assert_all_checks_passed();
}

#[test]
fn options_may_depend_on_the_environment_and_flags_win() {
    let mut script = Script::new(
        "export const options = { vus: Number(__ENV.USERS), iterations: 8 };
         export default function () {}",
    );
    script.config.environment = crate::support::variable("USERS", "4");
    let ran = script.run();
    assert_eq!((ran.report().vus_max, ran.report().iterations.complete), (4, 8));
    let mut script = Script::new(
        "export const options = { vus: 4, iterations: 8 };
         export default function () {}",
    );
    script.config.overrides = Layer { vus: Some(2), iterations: Some(3), ..Layer::default() };
    let ran = script.run();
    assert_eq!((ran.report().vus_max, ran.report().iterations.complete), (2, 3));
}

#[test]
fn options_of_the_script_win_over_those_of_a_file() {
    let mut script =
        Script::new("export const options = { iterations: 8 }; export default function () {}");
    let file = ConfigFile::parse(r#"{ "vus": 3, "duration": "10m" }"#).unwrap();
    script.config.defaults = file.options;
    let ran = script.run();
    assert_eq!((ran.report().vus_max, ran.report().iterations.complete), (3, 8));
}

#[test]
fn async_default_functions_run_to_their_end() {
    let ran = Script::new(
        "import { check, sleep } from 'k6';
         export default async function () {
            await Promise.resolve();
            sleep(0.01);
            const value = await new Promise((resolve) => resolve(7));
            check(value, { awaited: (v) => v === 7 });
            throw new Error('after await');
         }",
    )
    .run();
    assert_eq!(ran.check("awaited"), (1, 0));
    assert!(ran.said("after await"), "{:?}", ran.messages);
}

#[test]
fn asynchronous_work_that_nobody_awaits_is_done_in_its_own_iteration() {
    let ran = Script::new(
        "import { check } from 'k6';
         let pending = 0;
         const work = async () => { pending += 1; for (let i = 0; i < 10; i++) await null; pending -= 1; };
         work();
         export default async function () {
            check(pending, { 'nothing left over': (p) => p === 0 });
            work();
         }",
    )
    .options(Layer { vus: Some(1), iterations: Some(3), ..Layer::default() })
    .run();
    assert_eq!(ran.check("nothing left over"), (3, 0), "{:?}", ran.messages);
}

#[test]
fn only_rejections_that_nobody_handles_are_told() {
    let ran = Script::new(
        "const rejects = async (what) => { throw new Error(what); };
         rejects('in the init code');
         export default async function () {
            rejects('forgotten');
            Promise.reject('no error');
            try { await rejects('awaited'); } catch (e) {}
            rejects('handled').catch(() => {});
            const late = rejects('late'); await null; late.catch(() => {});
            throw new Error('the function itself');
         }",
    )
    .run();
    assert_eq!(ran.status, ExitStatus::Success);
    let times = |text: &str| ran.messages.iter().filter(|line| line.contains(text)).count();
    assert_eq!(times("Uncaught (in promise)"), 3, "{:?}", ran.messages);
    for told in ["in the init code", "forgotten", "no error", "the function itself"] {
        assert_eq!(times(told), 1, "{told}: {:?}", ran.messages);
    }
}

#[test]
fn top_level_await_is_finished_before_the_start() {
    Script::new(
        "import { check } from 'k6';
         const value = await Promise.resolve(3);
         export default function () { check(value, { ready: (v) => v === 3 }); }",
    )
    .run()
    .assert_all_checks_passed();
}

#[test]
fn what_a_script_writes_can_go_to_a_file() {
    let mut script = Script::body("console.log('a', { b: 1 }); console.error('e');");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("console.log");
    std::fs::write(&file, "before\n").unwrap();
    script.config.console_output = Some(file.clone());
    let ran = script.run();
    let written = std::fs::read_to_string(file).unwrap();
    let lines: Vec<_> = written.lines().map(|line| line.split_once(" level=")).collect();
    assert!(written.starts_with("before\n"), "{written}");
    assert_eq!(lines[1].unwrap().1, "info msg=\"a { b: 1 }\"");
    assert_eq!(lines[2].unwrap().1, "error msg=e");
    assert!(!ran.said("msg=e") && !ran.said("a { b"), "{:?}", ran.messages);
    let mut script = Script::body("");
    script.config.console_output = Some(script.path("nowhere/console.log"));
    let ran = script.run();
    assert!(ran.said("cannot be opened"), "{:?}", ran.messages);
    assert_eq!(ran.status, ExitStatus::InvalidConfig);
}

#[test]
fn console_writes_values_as_text() {
    let ran = Script::body(
        "console.log('a', 1, { b: [2] }, null, undefined, new Error('e')); console.warn('w');",
    )
    .run();
    assert!(
        ran.said("level=info msg=\"a 1 { b: [ 2 ] } null undefined Error: e\" source=console"),
        "{:?}",
        ran.messages
    );
    assert!(ran.said("level=warning msg=w"), "{:?}", ran.messages);
}

#[test]
fn fail_and_group_behave_as_documented() {
    let ran = Script::body(
        "check(group('outer', () => group('inner', () => { check(1, { nested: true }); return 5; })), { value: (v) => v === 5 });
         let thrown; try { group('a::b', () => {}); } catch (e) { thrown = e; }
         check(thrown, { colons: (e) => e.message.includes('::') });
         thrown = null; try { check(1, { 'a::b': true }); } catch (e) { thrown = e; }
         check(thrown, { 'colons in a check': (e) => e.message.includes('::') });
         try { group('async', async () => {}); } catch (e) { thrown = e; }
         check(thrown, { async: (e) => e.message.includes('does not support async functions') });
         try { group('throws', () => fail('on purpose')); } catch (e) { thrown = e; }
         check(thrown, { message: (e) => e.message === 'on purpose', 'left the group': true });",
    )
    .run();
    ran.assert_all_checks_passed();
    let groups = |name: &str| {
        let check = ran.report().checks.iter().find(|check| check.name == name).unwrap();
        check.group.clone()
    };
    assert_eq!(groups("nested"), "::outer::inner");
    assert_eq!(groups("left the group"), "");
}

#[test]
fn network_and_checks_are_refused_in_the_init_code() {
    for code in
        ["http.get('http://127.0.0.1:1/')", "check(1, {})", "sleep(1)", "group('g', () => {})"]
    {
        let ran = Script::new(&format!(
            "import http from 'k6/http'; import {{ check, sleep, group }} from 'k6';
             {code}; export default function () {{}}"
        ))
        .run();
        assert_eq!(ran.status, ExitStatus::ScriptException, "{code}");
        assert!(ran.said("init context"), "{code}: {:?}", ran.messages);
    }
}

#[test]
fn scenarios_choose_their_function_and_environment() {
    let ran = Script::new(
        "import { check } from 'k6';
         export const options = { scenarios: {
            first: { executor: 'per-vu-iterations', vus: 2, iterations: 3, exec: 'one', env: { WHO: 'a' } },
            second: { executor: 'shared-iterations', vus: 2, iterations: 5, exec: 'two', env: { WHO: 'b' } },
         } };
         export function one() { check(__ENV.WHO, { one: (w) => w === 'a' }); }
         export function two() { check(__ENV.WHO, { two: (w) => w === 'b' }); }",
    )
    .run();
    ran.assert_all_checks_passed();
    assert_eq!((ran.check("one"), ran.check("two")), ((6, 0), (5, 0)));
}

#[test]
fn a_missing_function_is_told_before_the_start() {
    let ran = Script::new("export const x = 1;").run();
    assert!(
        ran.said("scenario `default`: the script exports no function `default`"),
        "{:?}",
        ran.messages
    );
    assert_eq!(ran.status, ExitStatus::InvalidConfig);
}

#[test]
fn only_what_is_falsy_leaves_the_summary_to_the_engine() {
    let script = Script::new(
        "export default function () {}
         export function handleSummary() { return eval(__ENV.RETURNED); }",
    );
    let shown = |returned: &str| {
        let mut child = crate::signals::child(&script.config.script);
        let output = child.env("RETURNED", returned).output().unwrap();
        let (out, err) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
        (out.unwrap().contains("iteration_duration"), err.unwrap())
    };
    for (returned, is_shown, told) in [
        ("({})", false, ""),
        ("({ stdout: 'mine' })", false, ""),
        ("undefined", true, ""),
        ("''", true, ""),
        ("'text'", true, "handleSummary() must return an object"),
        ("({ stdout: 5 })", true, "handleSummary(): `stdout` is neither a text nor a buffer"),
    ] {
        let (shows, messages) = shown(returned);
        assert_eq!(shows, is_shown, "{returned}: {messages}");
        assert!(messages.contains(told), "{returned}: {messages}");
    }
}
