//! `k6/crypto`, `k6/encoding`, `k6/data`, `k6/timers`, `open()` and the libraries of jslib.k6.io.

use crate::support::Script;

fn checks(imports: &str, body: &str) -> Script {
    Script::new(&format!(
        "import {{ check }} from 'k6'; {imports}
         export default async function () {{ {body} }}"
    ))
}

#[test]
fn hashes_match_published_values() {
    // FIPS 180 and RFC 1321 examples for `abc`; RFC 4231 test case 2 for the HMAC.
    let body = r"check(crypto, {
        md5: (c) => c.md5('abc', 'hex') === '900150983cd24fb0d6963f7d28e17f72',
        sha1: (c) => c.sha1('abc', 'hex') === 'a9993e364706816aba3e25717850c26c9cd0d89d',
        sha256: (c) => c.sha256('abc', 'hex') === 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
        base64: (c) => c.sha1('abc', 'base64') === 'qZk+NkcGgWq6PiVxeFDCbJzQ2J0=',
        base64rawurl: (c) => c.sha1('abc', 'base64rawurl') === 'qZk-NkcGgWq6PiVxeFDCbJzQ2J0',
        binary: (c) => new Uint8Array(c.sha1('abc', 'binary'))[0] === 0xa9,
        bytes: (c) => c.sha1(new Uint8Array([0, 97, 98, 99]).subarray(1), 'hex') === c.sha1('abc', 'hex'),
        ripemd160: (c) => c.ripemd160('abc', 'hex') === '8eb208f7e05d987a9b044a8e98c6b087f15a0bfc',
        hmac: (c) => c.hmac('sha256', 'Jefe', 'what do ya want for nothing?', 'hex')
            === '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
        pieces: (c) => { const h = c.createHash('sha256'); h.update('a'); h.update('bc'); return h.digest('hex') === c.sha256('abc', 'hex'); },
        keyed: (c) => { const h = c.createHMAC('sha1', 'k'); h.update('v'); return h.digest('hex') === c.hmac('sha1', 'k', 'v', 'hex'); },
        random: (c) => c.randomBytes(16).byteLength === 16,
        encoding: (c) => { try { c.md5('a', 'x'); } catch (e) { return String(e).includes('invalid output encoding: x'); } },
    });";
    checks("import crypto from 'k6/crypto';", body).run().assert_all_checks_passed();
}

#[test]
fn base64_and_the_random_of_browsers() {
    let body = r"check(encoding, {
        std: (e) => e.b64encode('a?>') === 'YT8+' && e.b64decode('YT8+', 'std', 's') === 'a?>',
        url: (e) => e.b64encode('a?>', 'url') === 'YT8-',
        raw: (e) => e.b64encode('a', 'rawstd') === 'YQ' && e.b64decode('YQ', 'rawurl', 's') === 'a',
        binary: (e) => e.b64decode('YQ==').byteLength === 1,
        uuid: () => /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID()),
        values: () => { const v = new Uint16Array(64); return crypto.getRandomValues(v) === v && v.some((x) => x > 255); },
        wrong: () => { try { crypto.getRandomValues(new Float32Array(1)); } catch (e) { return e instanceof TypeError; } },
    });";
    checks("import encoding from 'k6/encoding';", body).run().assert_all_checks_passed();
}

#[test]
fn a_shared_array_is_an_array_that_cannot_be_changed_and_is_computed_once() {
    let script = "import { SharedArray } from 'k6/data'; import { check } from 'k6';
        export const options = { vus: 3, iterations: 3 };
        const users = new SharedArray('users', () => {
            console.log('computed');
            return [{ name: 'a', roles: ['x'] }, { name: 'b' }, 3];
        });
        const throws = (f) => { try { f(); return false; } catch (e) { return e instanceof TypeError; } };
        export default function () { check(users, {
            array: (u) => Array.isArray(u) && u.length === 3,
            element: (u) => u[1].name === 'b' && u[3] === undefined,
            methods: (u) => u.map((x) => x.name).join() === 'a,b,' && [...u].length === 3,
            json: (u) => JSON.stringify(u) === '[{\"name\":\"a\",\"roles\":[\"x\"]},{\"name\":\"b\"},3]',
            keys: (u) => Object.keys(u).join() === '0,1,2' && 1 in u,
            frozen: (u) => throws(() => { u[0] = 1; }) && throws(() => u.push(1)) && throws(() => { u[0].roles.push('y'); }),
        }); }";
    let ran = Script::new(script).run();
    ran.assert_all_checks_passed();
    let computed = ran.messages.iter().filter(|line| line.contains("computed")).count();
    assert_eq!(computed, 1, "{:?}", ran.messages);
}

#[test]
fn open_reads_files_beside_the_file_that_asks_and_only_in_init() {
    let script = "import { inner } from './lib/inner.js'; import { check } from 'k6';
        const text = open('./data.txt'); const bytes = open('data.txt', 'b');
        let missing; try { open('nowhere'); } catch (e) { missing = String(e); }
        export default function () { check(null, {
            text: () => text === 'outer', bytes: () => new Uint8Array(bytes)[0] === 111,
            inner: () => inner === 'inner', missing: () => missing.includes('nowhere'),
            'not later': () => { try { open('data.txt'); } catch (e) { return String(e).includes('init stage'); } },
        }); }";
    Script::new(script)
        .file("data.txt", "outer")
        .file_in("lib", "data.txt", "inner")
        .file_in("lib", "inner.js", "export const inner = open('./data.txt');")
        .run()
        .assert_all_checks_passed();
}

#[test]
fn an_iteration_waits_for_its_timers_and_runs_them_in_order() {
    let script = "import { check } from 'k6'; import { setTimeout as later } from 'k6/timers';
        const seen = [];
        export const options = { vus: 1, iterations: 2 };
        export default async function () {
            if (__ITER === 1) { check(seen.join(), { order: (s) => s === 'now,5a,interval,interval,last', }); return; }
            let count = 0;
            later((x) => seen.push('last'), 1000);
            setTimeout((x) => seen.push('5' + x), 5, 'a');
            const gone = setTimeout(() => seen.push('gone'), 1); clearTimeout(gone);
            const id = setInterval(() => { seen.push('interval'); if (++count === 2) clearInterval(id); }, 10);
            seen.push('now');
        }";
    Script::new(script).run().assert_all_checks_passed();
}

#[test]
fn k6_utils_is_built_in() {
    let imports = "import { randomIntBetween, randomItem, randomString, uuidv4, findBetween,
        normalDistributionStages, parseDuration, check as later }
        from 'https://jslib.k6.io/k6-utils/1.6.0/index.js';";
    let body = "const ints = Array.from({ length: 200 }, () => randomIntBetween(3, 5));
        check(null, {
            ints: () => Math.min(...ints) === 3 && Math.max(...ints) === 5 && ints.includes(4),
            item: () => ['a', 'b'].includes(randomItem(['a', 'b'])),
            text: () => /^[xy]{8}$/.test(randomString(8, 'xy')) && /^[a-z]{3}$/.test(randomString(3)),
            uuid: () => /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(uuidv4()) && uuidv4(true) !== uuidv4(true),
            between: () => findBetween('<a>1</a><a>2</a>', '<a>', '</a>') === '1' && findBetween('x', 'a', 'b') === null,
            all: () => findBetween('<a>1</a><a>2</a>', '<a>', '</a>', true).join() === '1,2',
            duration: () => parseDuration('1h30m') === 5400000 && parseDuration('1.5s') === 1500 && parseDuration('250ms') === 250,
            wrong: () => { try { parseDuration('5 parsecs'); } catch (e) { return true; } },
            stages: () => { const s = normalDistributionStages(100, 60, 4); return s.length === 6 && s[2].target === 100 && s[5].target === 0; },
        });
        const all = await later(Promise.resolve(5), { 'awaited value': async (v) => v === 5 });
        check(all, { 'tells the result': (all) => all === true });";
    checks(imports, body).run().assert_all_checks_passed();
}

#[test]
fn k6_utils_tells_and_tags_the_stage_that_runs() {
    let ran = Script::new(
        "import { sleep, check } from 'k6'; import exec from 'k6/execution';
         import { getCurrentStageIndex, tagWithCurrentStageIndex }
            from 'https://jslib.k6.io/k6-utils/1.4.0/index.js';
         const stages = [{ duration: '1s', target: 1 }, { duration: '1s', target: 1 }];
         export const options = { scenarios: { s: { executor: 'ramping-vus', startVUs: 1, stages } } };
         export default function () {
            if (exec.vu.iterationInInstance > 0) return sleep(0.1);
            tagWithCurrentStageIndex();
            check(null, { first: () => getCurrentStageIndex() === 0 && exec.vu.metrics.tags.stage === '0' });
            sleep(1.2);
            tagWithCurrentStageIndex();
            check(null, { second: () => getCurrentStageIndex() === 1 && exec.vu.metrics.tags.stage === '1' });
         }",
    )
    .run();
    let checks = &ran.report().checks;
    assert_eq!(checks.len(), 2, "{checks:?}");
    assert!(checks.iter().all(|check| (check.passes, check.fails) == (1, 0)), "{checks:?}");
}

#[test]
fn an_outline_lists_variables_imports_and_opened_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let write = |name: &str, text: &str| std::fs::write(path(name), text).unwrap();
    write("lib.js", "export const kind = __ENV.KIND;");
    write("data.txt", "1");
    write(
        "script.js",
        "import { kind } from './lib.js'; import { sleep } from 'k6'; import http from 'k6/http'; const data = open('./data.txt');
         export default function () { if (late) __ENV.SIZE; }",
    );
    let config = madang_load::Config { script: path("script.js"), ..Default::default() };
    let outline = madang_load::check(&config).unwrap();
    assert!(outline.variables.unwrap().iter().eq(["KIND", "SIZE"]));
    assert!(outline.imports.iter().eq([&path("lib.js")]));
    assert!(outline.opened.iter().eq([&path("data.txt")]));
    assert!(outline.modules.iter().eq(["k6", "k6/http"]));
    assert_eq!(outline.shape, madang_load::Shape::Steady);
    write("lib.js", "export const kind = (name) => __ENV[name];");
    assert_eq!(madang_load::check(&config).unwrap().variables, None);
}

#[test]
fn secrets_are_given_by_name_and_hidden_in_messages() {
    let mut script = Script::new(
        "import secrets from 'k6/secrets'; import { check } from 'k6';
         export default async function () {
             const value = await secrets.get('cool');
             const other = await secrets.source('b').get('cool');
             let problem = null;
             try { await secrets.get('none') } catch (error) { problem = error.message }
             console.log(`it is ${value}`);
             check(null, { values: () => value === 'the first' && other === 'the second', none: () => problem === 'no value' });
         }",
    );
    for source in ["mock=default,cool=the first", "mock=name=b,cool=the second"] {
        script.config.secrets.add(source).unwrap();
    }
    let ran = script.run();
    ran.assert_all_checks_passed();
    assert!(ran.said("it is ***SECRET_REDACTED***"), "{:?}", ran.messages);
}

#[test]
fn text_becomes_bytes_and_bytes_become_text() {
    checks(
        "",
        "const bytes = new TextEncoder().encode('한 \\u{1f600} \\ud800');
         const decoder = new TextDecoder();
         const parts = [...bytes].map((byte) => decoder.decode(Uint8Array.of(byte), { stream: true })).join('') + decoder.decode();
         const into = new Uint8Array(4);
         let error = null;
         try { new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.of(0xff)) } catch (e) { error = e.name }
         check(null, {
             bytes: () => bytes.length === 3 + 1 + 4 + 1 + 3,
             whole: () => new TextDecoder().decode(bytes) === '한 \\u{1f600} \\ufffd',
             parts: () => parts === '한 \\u{1f600} \\ufffd',
             into: () => { const { read, written } = new TextEncoder().encodeInto('한한', into); return read === 1 && written === 3 },
             fatal: () => error === 'TypeError',
             mark: () => new TextDecoder().decode(Uint8Array.of(0xef, 0xbb, 0xbf, 0x61)) === 'a',
         });",
    )
    .run()
    .assert_all_checks_passed();
}
