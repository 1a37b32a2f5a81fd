//! Stackful coroutines driven as futures.
//!
//! A k6 script calls `http.get()` and `sleep()` and expects them to block. Each virtual user therefore runs on a
//! stack of its own: inside it [`block_on`] polls a future and, while that is pending, switches back to the event
//! loop that polled the [`Coroutine`]; the wake-up of the inner future is the wake-up of the outer task. A thread per
//! virtual user would have the same semantics at many times the memory and context-switch cost; turning every script
//! function into a generator is not possible, because QuickJS keeps C frames between the script and the call.
//!
//! Two rules keep the unsafe part small:
//! - A coroutine is never moved between threads (`Coroutine` is not `Send`), and the pointer in [`CURRENT`] is only
//!   set while its coroutine is the one running on this thread.
//! - A suspended coroutine is never unwound: its stack may hold C frames of QuickJS. Dropping one leaks its stack.
//!   Callers avoid the leak by letting the body return (see `Control::interrupt`).
#![expect(unsafe_code, reason = "reaching the running coroutine's stack frame from a native call")]

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::mem::ManuallyDrop;
use std::pin::{Pin, pin};
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

use corosensei::stack::{DefaultStack, Stack as _};
use corosensei::{CoroutineResult, Yielder};
use rustix::mm::{Advice, madvise};

/// Stack of one virtual user. Only touched pages cost memory; the rest is address space above corosensei's guard page.
pub(crate) const STACK_BYTES: usize = 512 * 1024;

/// Part of [`STACK_BYTES`] for QuickJS. The rest is for the frames above it (this module) and below it: native
/// functions, the HTTP client, the event loop's timers.
pub(crate) const SCRIPT_STACK_BYTES: usize = 320 * 1024;

/// Stack below the running function that [`release_unused`] keeps: room for that function itself.
const KEPT_BYTES: usize = 4 * 1024;

/// Lives on the coroutine's own stack for as long as its body runs.
struct Frame<'y> {
    /// Lowest address of the stack.
    limit: usize,
    yielder: &'y Yielder<Waker, ()>,
    /// Wakes the task that polls this coroutine; replaced at every resumption.
    waker: RefCell<Waker>,
}

thread_local! {
    /// Frame of the coroutine that is running on this thread, if any.
    static CURRENT: Cell<Option<NonNull<Frame<'static>>>> = const { Cell::new(None) };
}

/// Restores [`CURRENT`] when control returns to the resumer, by whatever path (suspension, return, panic).
struct Restore(Option<NonNull<Frame<'static>>>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// A function on a stack of its own; a future that completes when the function returns.
pub(crate) struct Coroutine {
    inner: ManuallyDrop<corosensei::Coroutine<Waker, (), (), DefaultStack>>,
}

impl Coroutine {
    /// Prepares `body` to run on a fresh stack. Nothing runs before the first poll.
    pub(crate) fn new(body: impl FnOnce() + 'static) -> io::Result<Self> {
        let stack = DefaultStack::new(STACK_BYTES)?;
        let limit = stack.limit().get();
        let inner =
            corosensei::Coroutine::with_stack(stack, move |yielder: &Yielder<Waker, ()>, waker| {
                let frame = Frame { limit, yielder, waker: RefCell::new(waker) };
                CURRENT.set(Some(NonNull::from(&frame).cast()));
                body();
            });
        Ok(Self { inner: ManuallyDrop::new(inner) })
    }
}

impl Future for Coroutine {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let _restore = Restore(CURRENT.get());
        match self.inner.resume(cx.waker().clone()) {
            CoroutineResult::Yield(()) => Poll::Pending,
            CoroutineResult::Return(()) => Poll::Ready(()),
        }
    }
}

impl Drop for Coroutine {
    fn drop(&mut self) {
        if self.inner.done() || !self.inner.started() {
            // SAFETY: dropped once, here, and never used again: `drop` runs once.
            unsafe { ManuallyDrop::drop(&mut self.inner) }
        }
        // Otherwise leaked on purpose: see the module's second rule.
    }
}

/// Blocks the running coroutine until `future` is ready; the event loop goes on meanwhile.
///
/// # Panics
/// If called outside of a coroutine: nothing could be suspended there.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let current = CURRENT.get().expect("block_on is only called on a virtual user's stack");
    // SAFETY: `CURRENT` is `Some` only while the coroutine whose stack holds the frame runs on this thread, hence
    // this code is on that stack, below the frame, which cannot go away before this function returns.
    let frame = unsafe { current.as_ref() };
    let mut future = pin!(future);
    loop {
        // Cloned, not borrowed: a future may resume code that suspends again.
        let waker = frame.waker.borrow().clone();
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        let next = frame.yielder.suspend(());
        CURRENT.set(Some(current));
        frame.waker.replace(next);
    }
}

/// Gives memory of the running coroutine's stack back that only calls deeper than the present one have used. For long
/// pauses: the next deep call costs a page fault for each 4 KiB.
#[inline(never)]
pub(crate) fn release_unused() {
    let Some(current) = CURRENT.get() else { return };
    // SAFETY: as in `block_on`.
    let limit = unsafe { current.as_ref() }.limit;
    let here = (&raw const current).addr();
    let end = here.saturating_sub(KEPT_BYTES) & !(rustix::param::page_size() - 1);
    let length = end.saturating_sub(limit);
    let start = std::ptr::with_exposed_provenance_mut(limit);
    // SAFETY: nothing lives on a stack below the frame of the running function, and all calls of this one fit into
    // `KEPT_BYTES`. Released pages read as zeros when they are used again.
    let released = unsafe { madvise(start, length, Advice::LinuxDontNeed) };
    debug_assert!(released.is_ok(), "the range is a part of the stack's mapping: {released:?}");
}

/// Lets the event loop run everything else that is ready, timers and sockets included.
pub(crate) fn yield_now() {
    // Tokio's own: waking the task directly would let it run again before timers and sockets are polled.
    block_on(tokio::task::yield_now());
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;
    use std::rc::Rc;
    use std::time::Duration;

    use super::*;

    fn on_event_loop(future: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(tokio::task::LocalSet::new().run_until(future));
    }

    fn spawn(body: impl FnOnce() + 'static) -> tokio::task::JoinHandle<()> {
        tokio::task::spawn_local(Coroutine::new(body).unwrap())
    }

    #[test]
    fn blocking_calls_of_two_coroutines_overlap() {
        on_event_loop(async {
            let log = Rc::new(RefCell::new(Vec::new()));
            let start = |name: &'static str| {
                let log = log.clone();
                spawn(move || {
                    log.borrow_mut().push(format!("{name} begins"));
                    yield_now();
                    log.borrow_mut().push(format!("{name} ends"));
                })
            };
            let (a, b) = (start("a"), start("b"));
            a.await.unwrap();
            b.await.unwrap();
            let log = log.borrow();
            assert_eq!(log[..2], ["a begins", "b begins"]);
            assert_eq!(log.len(), 4);
        });
    }

    #[test]
    fn a_timer_wakes_the_coroutine_that_waits_for_it() {
        on_event_loop(async {
            tokio::time::pause();
            let before = tokio::time::Instant::now();
            Coroutine::new(|| block_on(tokio::time::sleep(Duration::from_secs(5)))).unwrap().await;
            // Tokio's timers count in milliseconds.
            let waited = before.elapsed().as_secs_f64();
            assert!((5.0..=5.001).contains(&waited), "{waited}");
        });
    }

    /// Resident part of the 256 KiB below `address`, in KiB. By page, not by mapping as in `smaps`: neighbours on the
    /// heap may share a mapping with the stack.
    fn resident_kib(address: usize) -> usize {
        let (page, pages) = (rustix::param::page_size(), 64);
        let mut entries = [0_u8; 64 * 8];
        let first = (address / page - pages + 1) * 8;
        let pagemap = std::fs::File::open("/proc/self/pagemap").unwrap();
        pagemap.read_exact_at(&mut entries, first as u64).unwrap();
        // The highest bit of an entry, in native byte order: the page is in memory.
        let entries = entries.as_chunks().0.iter().map(|entry| u64::from_ne_bytes(*entry));
        entries.filter(|entry| entry >> 63 == 1).count() * page / 1024
    }

    #[inline(never)]
    fn use_stack() -> u8 {
        let used = std::hint::black_box([1_u8; 200 * 1024]);
        used[used.len() / 2]
    }

    #[test]
    fn a_stack_that_is_released_keeps_what_the_present_call_needs() {
        on_event_loop(async {
            spawn(|| {
                let kept = std::hint::black_box([7_u8; 1024]);
                let here = kept.as_ptr().addr();
                assert_eq!(use_stack(), 1);
                assert!(resident_kib(here) >= 200, "{} KiB", resident_kib(here));
                release_unused();
                // Reading the figure itself uses some of the stack again.
                assert!(resident_kib(here) < 64, "{} KiB", resident_kib(here));
                yield_now();
                assert_eq!(use_stack(), 1);
                assert_eq!(std::hint::black_box(kept), [7; 1024]);
            })
            .await
            .unwrap();
        });
    }

    #[test]
    fn timers_fire_while_a_coroutine_only_yields() {
        on_event_loop(async {
            let fired = Rc::new(Cell::new(false));
            let timer = fired.clone();
            tokio::task::spawn_local(async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                timer.set(true);
            });
            // Ends only when the timer fires.
            spawn(move || {
                while !fired.get() {
                    yield_now();
                }
            })
            .await
            .unwrap();
        });
    }

    #[test]
    fn a_panic_in_the_body_reaches_the_task_and_not_the_process() {
        on_event_loop(async {
            let task = spawn(|| {
                yield_now();
                panic!("as a bug would");
            });
            assert!(task.await.unwrap_err().is_panic());
            assert!(CURRENT.get().is_none());
        });
    }

    #[test]
    fn dropping_a_suspended_coroutine_does_not_unwind_its_stack() {
        struct Witness(Rc<Cell<bool>>);
        impl Drop for Witness {
            fn drop(&mut self) {
                self.0.set(true);
            }
        }
        let dropped = Rc::new(Cell::new(false));
        let witness = Witness(dropped.clone());
        let body = move || {
            let _witness = witness;
            block_on(std::future::pending::<()>());
        };
        let mut coroutine = Box::pin(Coroutine::new(body).unwrap());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(coroutine.as_mut().poll(&mut cx).is_pending());
        drop(coroutine);
        assert!(!dropped.get());
    }
}
