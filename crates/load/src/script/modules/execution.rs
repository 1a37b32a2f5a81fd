//! `k6/execution`: the position of the script, and functions that end the test.
//!
//! Every figure is an accessor, read on access. One process is one instance, so the figures that k6 reports of the
//! instance and of the whole test are the same here.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, UNIX_EPOCH};

use rquickjs::function::Opt;
use rquickjs::object::Accessor;
use rquickjs::{Coerced, Ctx, Exception, Function, IntoJs, Object, Result, Value};
use tokio::time::Instant;

use super::{define, ensure, running_user};
use crate::log::Level;
use crate::options::{Scenario, document};
use crate::script::user::{Assignment, User};

/// Makes an object whose members are looked up by functions.
const TAGS: &str = "(get, set, remove, keys) => new Proxy({}, {
    get: (_, key) => typeof key === 'string' ? get(key) : undefined,
    set: (_, key, value) => { set(String(key), value); return true; },
    has: (_, key) => typeof key === 'string' && get(key) !== undefined,
    deleteProperty: (_, key) => { remove(String(key)); return true; },
    ownKeys: () => keys(),
    getOwnPropertyDescriptor: (_, key) => {
        const value = typeof key === 'string' ? get(key) : undefined;
        return value === undefined ? undefined
            : { value, writable: true, enumerable: true, configurable: true };
    },
})";

/// Parses a document and makes all of it read-only.
const FROZEN: &str = "(text) => {
    const freeze = (value) => {
        if (value !== null && typeof value === 'object') {
            Object.values(value).forEach(freeze);
            Object.freeze(value);
        }
        return value;
    };
    return freeze(JSON.parse(text));
}";

/// Names of members, for reports of unknown ones.
pub(super) const INSTANCE: &str =
    "currentTestRunDuration iterationsCompleted iterationsInterrupted vusActive vusInitialized";
pub(super) const SCENARIO: &str =
    "executor iterationInInstance iterationInTest name progress startTime";
pub(super) const TEST: &str = "abort fail options";
pub(super) const VU: &str =
    "idInInstance idInTest iterationInInstance iterationInScenario metrics tags";
pub(super) const VU_METRICS: &str = "metadata tags";

pub(super) const MEMBERS: &str = "instance scenario test vu";

pub(super) fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    object.set("instance", instance(ctx)?)?;
    object.set("scenario", scenario(ctx)?)?;
    object.set("test", test(ctx)?)?;
    object.set("vu", vu(ctx)?)?;
    Ok(object)
}

/// Defines a member that is looked up at each access.
fn member<'js, T: IntoJs<'js> + 'js>(
    object: &Object<'js>,
    name: &'static str,
    get: impl Fn(&Ctx<'js>, &Rc<User>) -> Result<T> + 'js,
) -> Result<()> {
    let getter = move |ctx: Ctx<'js>| get(&ctx, &User::of(&ctx));
    object.prop(name, Accessor::from(getter).enumerable())
}

/// Defines a number that is not available in the init code.
fn figure<'js>(
    object: &Object<'js>,
    name: &'static str,
    refused: &'static str,
    read: fn(&User) -> f64,
) -> Result<()> {
    member(object, name, move |ctx: &Ctx<'js>, user: &Rc<User>| {
        ensure(ctx, !user.is_initialising(), refused)?;
        Ok(read(user))
    })
}

const NO_VU: &str = "getting VU information in the init context is not supported";

fn instance<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    let refused = "getting instance information in the init context is not supported";
    let figure = |name, read| figure(&object, name, refused, read);
    figure("currentTestRunDuration", |user| {
        user.run.began.get().map_or(0.0, |began| began.elapsed().as_secs_f64() * 1e3)
    })?;
    figure("iterationsCompleted", |user| user.run.live.complete.load(Ordering::Relaxed) as f64)?;
    figure("iterationsInterrupted", |user| {
        user.run.live.interrupted.load(Ordering::Relaxed) as f64
    })?;
    figure("vusActive", |user| user.run.live.active.load(Ordering::Relaxed) as f64)?;
    figure("vusInitialized", |user| user.run.live.initialised.load(Ordering::Relaxed) as f64)?;
    Ok(object)
}

/// The scenario the virtual user works for; throws in `setup()` and `teardown()`.
fn current<'u>(ctx: &Ctx<'_>, user: &'u User) -> Result<&'u Scenario> {
    let options = user.run.options.get();
    let index = user.assignment.borrow().index;
    let found =
        options.filter(|_| !user.is_initialising()).and_then(|all| all.scenarios.get(index));
    found.ok_or_else(|| {
        let message = "getting scenario information outside of the VU context is not supported";
        Exception::throw_message(ctx, message)
    })
}

fn scenario<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    member(&object, "name", |ctx, user| Ok(current(ctx, user)?.name.clone()))?;
    member(&object, "executor", |ctx, user| Ok(current(ctx, user)?.executor.name()))?;
    member(&object, "startTime", |ctx, user| {
        let scenario = current(ctx, user)?;
        let started = user.run.clock.get().map(|clock| clock.start_time + clock.offset(scenario));
        let since = started.and_then(|started| started.duration_since(UNIX_EPOCH).ok());
        Ok(since.map_or(0.0, |since| since.as_millis() as f64))
    })?;
    member(&object, "progress", |ctx, user| Ok(progress(user, current(ctx, user)?)))?;
    for name in ["iterationInInstance", "iterationInTest"] {
        member(&object, name, |ctx, user| {
            current(ctx, user)?;
            Ok(user.position.get().in_scenario as f64)
        })?;
    }
    Ok(object)
}

/// Progress from 0 to 1: by iterations if their number is known, otherwise by time.
fn progress(user: &User, scenario: &Scenario) -> f64 {
    let part = match scenario.executor.iterations() {
        Some(total) => {
            let started = user.assignment.borrow().iterations.load(Ordering::Relaxed);
            started.saturating_sub(1) as f64 / total as f64
        }
        None => {
            let elapsed = user.run.clock.get().map_or(Duration::ZERO, |clock| {
                Instant::now().saturating_duration_since(clock.start + clock.offset(scenario))
            });
            elapsed.as_secs_f64() / scenario.executor.duration().as_secs_f64()
        }
    };
    part.clamp(0.0, 1.0)
}

fn test<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    let abort = |ctx: Ctx<'js>, message: Opt<Coerced<String>>| -> Result<()> {
        let user = User::of(&ctx);
        user.abort_test(message.0.as_ref().map(|text| text.0.as_str()));
        // Ended by the interrupt handler, whose error no `catch` or `finally` of the script sees.
        ctx.eval::<(), _>("for (;;);")
    };
    define(&object, "abort", abort)?;
    let fail = |ctx: Ctx<'js>, message: Opt<Coerced<String>>| -> Result<()> {
        let refused = "getting test.fail() in the init context is not supported";
        let user = running_user(&ctx, refused)?;
        user.run.marked_failed.store(true, Ordering::Relaxed);
        let reason = message.0.map(|text| format!(": {}", text.0)).unwrap_or_default();
        let text = format!("test marked as failed{reason}");
        user.run.log.write_limited(Level::Error, &text, &[]);
        Ok(())
    };
    define(&object, "fail", fail)?;
    member(&object, "options", |ctx, user| -> Result<Value<'js>> {
        let refused = "getting test options in the init context is not supported";
        ensure(ctx, !user.is_initialising(), refused)?;
        let text = user.run.options.get().map(|options| document(options).to_string());
        ctx.eval::<Function<'js>, _>(FROZEN)?.call((text.unwrap_or_else(|| "{}".to_owned()),))
    })?;
    Ok(object)
}

fn vu<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    let figure = |name, read| figure(&object, name, NO_VU, read);
    figure("idInInstance", |user| f64::from(user.id))?;
    figure("idInTest", |user| f64::from(user.id))?;
    figure("iterationInInstance", |user| user.position.get().own as f64)?;
    // A virtual user never changes its scenario.
    figure("iterationInScenario", |user| user.position.get().own as f64)?;
    let tags = Labels::Tags.object(ctx)?;
    object.set("tags", tags.clone())?;
    let metrics = Object::new(ctx.clone())?;
    metrics.set("tags", tags)?;
    // Seldom used, hence not made for every virtual user.
    member(&metrics, "metadata", |ctx, _| Labels::Metadata.object(ctx))?;
    object.set("metrics", metrics)?;
    Ok(object)
}

/// The text of a tag or of metadata; throws for other values.
fn simple<'js>(ctx: &Ctx<'js>, what: &str, key: &str, value: &Value<'js>) -> Result<String> {
    if value.is_string() || value.is_number() || value.is_bool() {
        return Ok(value.get::<Coerced<String>>()?.0);
    }
    let message = format!(
        "the {what} `{key}` must be a string, a number or a boolean, and not {}",
        value.type_name()
    );
    Err(Exception::throw_type(ctx, &message))
}

#[derive(Clone, Copy)]
enum Labels {
    /// `vu.metrics.tags`: tags of all further values.
    Tags,
    /// `vu.metrics.metadata`: written by outputs beside the tags.
    Metadata,
}

impl Labels {
    fn set(self, user: &User, key: &str, text: Option<String>) {
        let list: fn(&mut Assignment) -> &mut Vec<(String, String)> = match self {
            Self::Tags => |assignment| &mut assignment.tags,
            Self::Metadata => |assignment| &mut assignment.metadata,
        };
        user.set_own(list, key, text);
    }

    /// An object whose members are read, set, removed and listed by functions.
    fn object<'js>(self, ctx: &Ctx<'js>) -> Result<Value<'js>> {
        let get = move |ctx: Ctx<'js>, key: String| -> Result<Value<'js>> {
            let user = running_user(&ctx, NO_VU)?;
            match self {
                Self::Tags => user.tag(&key).into_js(&ctx),
                Self::Metadata => user.metadata(&key).into_js(&ctx),
            }
        };
        let set = move |ctx: Ctx<'js>, key: String, value: Value<'js>| -> Result<()> {
            let user = running_user(&ctx, NO_VU)?;
            let what = if matches!(self, Self::Tags) { "tag" } else { "metadata" };
            let text = simple(&ctx, what, &key, &value)?;
            self.set(&user, &key, Some(text));
            Ok(())
        };
        let remove = move |ctx: Ctx<'js>, key: String| self.set(&User::of(&ctx), &key, None);
        let keys = move |ctx: Ctx<'js>| match self {
            Self::Tags => User::of(&ctx).tag_keys(),
            Self::Metadata => User::of(&ctx).metadata_keys(),
        };
        let make: Function<'js> = ctx.eval(TAGS)?;
        make.call((
            Function::new(ctx.clone(), get)?,
            Function::new(ctx.clone(), set)?,
            Function::new(ctx.clone(), remove)?,
            Function::new(ctx.clone(), keys)?,
        ))
    }
}
