//! `k6`: check, fail, group, randomSeed, sleep.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rquickjs::function::{Opt, This};
use rquickjs::{Class, Coerced, Ctx, Exception, Object, Result, Value};

use super::arguments::tags_from;
use super::response::Response;
use super::{define, ensure, running_user};
use crate::metrics::Builtin;
use crate::script::{coroutine, raw};

const MAX_SLEEP: Duration = Duration::from_secs(365 * 24 * 3600);

/// From here on, releasing the memory of the stack outweighs the page faults of using it again.
const LONG_SLEEP: Duration = Duration::from_secs(1);

pub(super) const MEMBERS: &str = "check fail group randomSeed sleep";

pub(super) fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    define(&object, "check", check)?;
    define(&object, "fail", fail)?;
    define(&object, "group", group)?;
    define(&object, "randomSeed", random_seed)?;
    define(&object, "sleep", sleep)?;
    Ok(object)
}

/// `::` separates the names of groups and checks in their path.
fn refuse_separator(ctx: &Ctx<'_>, name: &str) -> Result<()> {
    ensure(ctx, !name.contains("::"), "group and check names may not contain '::'")
}

/// `check(value, {name: condition}, tags?)`: each condition is a function of the value, or a value. True if all hold.
fn check<'js>(
    ctx: Ctx<'js>,
    value: Opt<Value<'js>>,
    sets: Opt<Value<'js>>,
    tags: Opt<Value<'js>>,
) -> Result<bool> {
    let user = running_user(&ctx, "Using check() in the init context is not supported")?;
    let value = value.0.unwrap_or_else(|| Value::new_undefined(ctx.clone()));
    let Some(sets) = sets.0 else {
        return Err(Exception::throw_message(&ctx, "no checks provided to `check`"));
    };
    if sets.is_undefined() || sets.is_null() {
        let message = "Cannot convert undefined or null to object";
        return Err(Exception::throw_type(&ctx, message));
    }
    let tags = tags_from(&ctx, tags.0)?;
    let Some(sets) = sets.as_object() else {
        // As in k6, a string has one condition per character, named by its index, which holds; numbers have none.
        let text = sets.as_string().map(rquickjs::String::to_string).transpose()?;
        let length = text.map_or(0, |text| text.encode_utf16().count());
        (0..length).for_each(|at| user.add_check(&at.to_string(), true, tags.as_deref()));
        return Ok(true);
    };
    let request = Class::<Response>::from_value(&value).ok().map(|class| class.borrow().request());
    let mut all = true;
    for entry in sets.props::<String, Value<'js>>() {
        let (name, condition) = entry?;
        refuse_separator(&ctx, &name)?;
        let message = "the built-in check() does not support async functions as arguments. Use the JavaScript \
                           utils library as a replacement. Refer to \
                           https://grafana.com/docs/k6/latest/javascript-api/jslib/utils/check/ for more info";
        ensure(&ctx, !raw::is_async(&condition), message)?;
        let result = match condition.as_function() {
            Some(function) => function.call::<_, Value<'js>>((value.clone(),)),
            None => Ok(condition),
        };
        let passed = match &result {
            Ok(result) => result.get::<Coerced<bool>>()?.0,
            Err(_) => false,
        };
        user.add_check(&name, passed, tags.as_deref());
        if !passed {
            all = false;
            match request {
                // The response to a request that was not sent is not about another one.
                Some(None) => {}
                Some(Some(request)) => user.spoil(Some(request)),
                None => user.spoil(None),
            }
        }
        // An exception counts as a failed check and then ends the iteration.
        result?;
    }
    Ok(all)
}

fn fail(ctx: Ctx<'_>, message: Opt<Coerced<String>>) -> Result<()> {
    Err(Exception::throw_message(&ctx, message.0.as_ref().map_or("", |text| text.0.as_str())))
}

/// `group(name, function)` returns what the function returns.
fn group<'js>(
    ctx: Ctx<'js>,
    _this: This<Value<'js>>,
    name: Coerced<String>,
    function: Opt<Value<'js>>,
) -> Result<Value<'js>> {
    let user = running_user(&ctx, "Using group() in the init context is not supported")?;
    let Some(function) = function.0.as_ref().and_then(Value::as_function) else {
        let message = "group() requires a callback as a second argument";
        return Err(Exception::throw_type(&ctx, message));
    };
    let message = "group() does not support async functions as arguments, please see \
                       https://grafana.com/docs/k6/latest/javascript-api/k6/group/ for more info";
    ensure(&ctx, !raw::is_async(function.as_value()), message)?;
    refuse_separator(&ctx, &name.0)?;
    let outer = user.group.get();
    let inner = user.event_loop.recorder.borrow_mut().group(outer, &name.0);
    user.group.set(inner);
    let start = Instant::now();
    let result = function.call::<_, Value<'js>>(());
    user.add(Builtin::GroupDuration.id(), start.elapsed().as_secs_f64() * 1e3, None);
    user.group.set(outer);
    result
}

fn sleep(ctx: Ctx<'_>, seconds: Opt<Coerced<f64>>) -> Result<()> {
    let user = running_user(&ctx, "Using sleep() in the init context is not supported")?;
    // Missing values, NaN and negative numbers do not wait.
    let seconds = seconds.0.map_or(0.0, |seconds| seconds.0);
    let duration =
        Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(MAX_SLEEP).min(MAX_SLEEP);
    if duration >= LONG_SLEEP {
        coroutine::release_unused();
    }
    user.wait(&ctx, tokio::time::sleep(duration))
}

/// `randomSeed(n)`: from here on, `Math.random()` returns the same numbers in every run.
fn random_seed<'js>(ctx: Ctx<'js>, seed: Coerced<f64>) -> Result<()> {
    // Each whole number is a seed of its own, and so is each other number.
    let state =
        Cell::new(if seed.0.fract() == 0.0 { seed.0 as i64 as u64 } else { seed.0.to_bits() });
    let next = move || {
        let (next, random) = split_mix(state.get());
        state.set(next);
        // The upper 53 bits: all multiples of 2^-53 below one are equally likely.
        (random >> 11) as f64 / (1u64 << 53) as f64
    };
    let math: Object<'js> = ctx.globals().get("Math")?;
    define(&math, "random", next)
}

/// Next state and number of Steele, Lea and Flood's SplitMix64 ("Fast splittable pseudorandom number generators",
/// 2014).
fn split_mix(state: u64) -> (u64, u64) {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (state, mixed ^ (mixed >> 31))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published first numbers for the seed 1234567.
    #[test]
    fn the_generator_is_split_mix() {
        let (state, first) = split_mix(1_234_567);
        let (state, second) = split_mix(state);
        let third = split_mix(state).1;
        assert_eq!(
            [first, second, third],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }
}
