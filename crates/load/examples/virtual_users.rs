//! What a virtual user costs, by the way it is built. One way per process, so that the memory of
//! one does not count for another:
//!
//! ```text
//! cargo run --release -p madang-load --example virtual_users -- coroutines 1000
//! cargo run --release -p madang-load --example virtual_users -- threads 1000
//! cargo run --release -p madang-load --example virtual_users -- contexts 1000
//! cargo run --release -p madang-load --example virtual_users -- compile 1000
//! cargo run --release -p madang-load --example virtual_users -- threads-get 64 127.0.0.1:PORT SECONDS
//! ```
//!
//! The first three evaluate a script with a check and a request function in it and stay alive.
//! `compile` compares evaluating source text with loading bytecode. `threads-get` is the
//! throughput of an operating system thread per virtual user with a blocking client; its
//! counterpart is the engine itself (`--example load`) on the same server.

use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use rquickjs::{Context, Ctx, Function, Module, Object, Runtime, Value};
use rustix::time::{ClockId, clock_gettime};

/// About the size of a small real script.
const SCRIPT: &str = "
    const url = 'http://127.0.0.1/v1/articles';
    const names = ['a', 'b', 'c'].map((name, index) => ({ name, index, tags: { name } }));
    function check(value, sets) {
        let ok = true;
        for (const name in sets) ok = sets[name](value) && ok;
        return ok;
    }
    export default function () {
        const res = { status: get() };
        return check(res, { 'status is 200': (r) => r.status === 200, 'named': () => names.length === 3 });
    }";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse::<usize>().ok());
    let (mode, count) = (arguments.first().map(String::as_str), number(1).unwrap_or(1000));
    match mode {
        Some("coroutines") => measure("coroutines", count, coroutines),
        Some("threads") => measure("threads", count, threads),
        Some("contexts") => measure("contexts", count, contexts),
        Some("compile") => compile(count),
        Some("threads-get") => {
            let address = arguments.get(2).cloned().unwrap_or_default();
            threads_get(count, &address, number(3).unwrap_or(5) as u64);
        }
        _ => eprintln!("usage: virtual_users coroutines|threads|contexts|compile|threads-get N …"),
    }
}

/// Builds `count` virtual users and prints what each costs while all of them are alive.
fn measure<T>(name: &str, count: usize, build: fn(usize) -> T) {
    let (before, start, cpu) = (resident_bytes(), Instant::now(), process_cpu());
    let alive = build(count);
    let (elapsed, cpu) = (start.elapsed(), process_cpu() - cpu);
    let bytes = resident_bytes().saturating_sub(before) / count;
    println!(
        "{name}: {count} virtual users in {:.0} ms ({:.0} µs of processor time each), {:.1} KiB each",
        elapsed.as_secs_f64() * 1e3,
        cpu.as_secs_f64() * 1e6 / count as f64,
        bytes as f64 / 1024.0
    );
    // Freeing is not part of the question, and a suspended coroutine must not be unwound.
    std::mem::forget(alive);
}

fn evaluate<'js>(ctx: &Ctx<'js>, get: impl Fn() -> u16 + 'static) -> Function<'js> {
    let global: Object<'js> = ctx.globals();
    global.set("get", Function::new(ctx.clone(), get).expect("a function")).expect("a global");
    let module = Module::declare(ctx.clone(), "script.js", SCRIPT).expect("it parses");
    let (module, promise) = module.eval().expect("it runs");
    promise.finish::<()>().expect("no top-level await");
    module.get("default").expect("it is exported")
}

/// The engine's way: a runtime per virtual user, created on the virtual user's own stack.
fn coroutines(count: usize) -> Vec<Coroutine<(), (), ()>> {
    let build = |_| {
        let stack = DefaultStack::new(512 * 1024).expect("address space");
        let mut coroutine =
            Coroutine::with_stack(stack, |yielder: &corosensei::Yielder<(), ()>, ()| {
                let runtime = Runtime::new().expect("memory");
                let context = Context::full(&runtime).expect("memory");
                context.with(|ctx| {
                    let function = evaluate(&ctx, || 200);
                    let _: Value<'_> = function.call(()).expect("one iteration");
                    yielder.suspend(());
                });
            });
        assert!(matches!(coroutine.resume(()), CoroutineResult::Yield(())));
        coroutine
    };
    (0..count).map(build).collect()
}

/// A runtime and an operating system thread per virtual user.
fn threads(count: usize) {
    let ready = Arc::new(Barrier::new(count + 1));
    for _ in 0..count {
        let ready = ready.clone();
        std::thread::spawn(move || {
            let runtime = Runtime::new().expect("memory");
            let context = Context::full(&runtime).expect("memory");
            context.with(|ctx| {
                let function = evaluate(&ctx, || 200);
                let _: Value<'_> = function.call(()).expect("one iteration");
                ready.wait();
                std::thread::park();
            });
        });
    }
    ready.wait();
}

/// One runtime, a context per virtual user. Only for its memory: QuickJS keeps the stack of
/// running functions in the runtime, so two contexts of one runtime cannot both be suspended.
fn contexts(count: usize) -> (Runtime, Vec<Context>) {
    let runtime = Runtime::new().expect("memory");
    let build = |_| {
        let context = Context::full(&runtime).expect("memory");
        context.with(|ctx| {
            let function = evaluate(&ctx, || 200);
            let _: Value<'_> = function.call(()).expect("one iteration");
        });
        context
    };
    let contexts = (0..count).map(build).collect();
    (runtime, contexts)
}

/// Source text against bytecode: how long a fresh runtime takes to have the module ready.
#[expect(unsafe_code, reason = "loading bytecode, which this function has just written")]
fn compile(count: usize) {
    // A script with a library in it: 200 functions, about 20 KiB.
    let library: String = (0..200)
        .map(|n| format!("export function f{n}(a, b) {{ const c = a + b * {n}; return c > 10 ? [c, 'f{n}'] : {{ c }}; }}\n"))
        .collect();
    let runtime = Runtime::new().expect("memory");
    let context = Context::full(&runtime).expect("memory");
    let bytecode = context.with(|ctx| {
        let module = Module::declare(ctx, "library.js", library.as_str()).expect("it parses");
        module.write(rquickjs::module::WriteOptions::default()).expect("it can be written")
    });
    for way in ["nothing", "source", "bytecode"] {
        let (mut engine, mut module) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..count {
            let start = Instant::now();
            let runtime = Runtime::new().expect("memory");
            let context = Context::full(&runtime).expect("memory");
            engine += start.elapsed();
            context.with(|ctx| {
                let start = Instant::now();
                match way {
                    "source" => drop(
                        Module::declare(ctx, "library.js", library.as_str())
                            .expect("it parses")
                            .eval(),
                    ),
                    // SAFETY: the bytes come from `write` above, of the same QuickJS.
                    "bytecode" => {
                        drop(unsafe { Module::load(ctx, &bytecode) }.expect("it loads").eval());
                    }
                    _ => {}
                }
                module += start.elapsed();
            });
        }
        let each = |total: Duration| total.as_secs_f64() * 1e6 / count as f64;
        println!(
            "{way}: engine {:.0} µs, module of {} KiB {:.0} µs",
            each(engine),
            library.len() / 1024,
            each(module)
        );
    }
}

/// A thread per virtual user, each with a blocking connection, for `seconds`.
fn threads_get(count: usize, address: &str, seconds: u64) {
    let (requests, start, cpu) = (Arc::new(AtomicU64::new(0)), Instant::now(), process_cpu());
    let deadline = start + Duration::from_secs(seconds);
    let user = move |requests: Arc<AtomicU64>, address: String| {
        let runtime = Runtime::new().expect("memory");
        let context = Context::full(&runtime).expect("memory");
        let stream = TcpStream::connect(&address).expect("a server at that address");
        stream.set_nodelay(true).expect("TCP");
        let connection = RefCell::new((stream, vec![0; 8192]));
        let request = format!("GET / HTTP/1.1\r\nHost: {address}\r\nUser-Agent: threads\r\n\r\n");
        let get = move || {
            let (stream, buffer) = &mut *connection.borrow_mut();
            stream.write_all(request.as_bytes()).expect("the server reads");
            read_response(stream, buffer)
        };
        context.with(|ctx| {
            let function = evaluate(&ctx, get);
            while Instant::now() < deadline {
                assert!(
                    function.call::<_, bool>(()).expect("one iteration"),
                    "the server said 200"
                );
                requests.fetch_add(1, Ordering::Relaxed);
            }
        });
    };
    let threads: Vec<_> = (0..count)
        .map(|_| {
            let (requests, address) = (requests.clone(), address.to_owned());
            std::thread::spawn(move || user(requests, address))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    let (total, cpu) = (requests.load(Ordering::Relaxed), process_cpu() - cpu);
    println!(
        "threads-get: {:.0} requests/s, {:.1} µs of processor time each",
        total as f64 / start.elapsed().as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / total.max(1) as f64
    );
}

/// Reads one response with a `Content-Length` that fits into the buffer; gives its status.
fn read_response(stream: &mut TcpStream, buffer: &mut [u8]) -> u16 {
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..]).expect("the server answers");
        assert!(read > 0, "the server keeps the connection open");
        filled += read;
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut headers);
        let parsed = response.parse(&buffer[..filled]).expect("HTTP");
        if let httparse::Status::Complete(head) = parsed {
            let length = response.headers.iter().find(|header| header.name == "Content-Length");
            let length =
                length.and_then(|header| std::str::from_utf8(header.value).ok()?.parse().ok());
            if filled >= head + length.unwrap_or(0usize) {
                return response.code.unwrap_or(0);
            }
        }
    }
}

fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Resident memory, from `/proc/self/statm` (pages of 4 KiB).
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}
