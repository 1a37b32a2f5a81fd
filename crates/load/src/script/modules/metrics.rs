//! `k6/metrics`: Counter, Gauge, Rate, Trend.

use rquickjs::class::Trace;
use rquickjs::function::{Constructor, Opt, This};
use rquickjs::object::Accessor;
use rquickjs::{Class, Coerced, Ctx, Exception, JsLifetime, Object, Result, Value};

use super::arguments::tags_from;
use super::{define, ensure, running_user};
use crate::log::Level;
use crate::metrics::{Builtin, Contains, MetricId, MetricKind};
use crate::script::error::to_text;
use crate::script::user::User;

pub(super) const MEMBERS: &str = "Counter Gauge Rate Trend";

pub(super) fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    for (name, kind) in [
        ("Counter", MetricKind::Counter),
        ("Gauge", MetricKind::Gauge),
        ("Rate", MetricKind::Rate),
        ("Trend", MetricKind::Trend),
    ] {
        let constructor = Constructor::new_class::<Metric, _, _>(
            ctx.clone(),
            move |ctx: Ctx<'js>, name: Coerced<String>, is_time: Opt<Coerced<bool>>| {
                construct(&ctx, &name.0, kind, is_time.0.is_some_and(|is_time| is_time.0))
            },
        )?;
        constructor.set_name(name)?;
        object.set(name, constructor)?;
    }
    Ok(object)
}

#[derive(JsLifetime, Trace)]
pub(super) struct Metric {
    name: String,
    #[qjs(skip_trace)]
    id: MetricId,
}

script_class!(Metric, "Metric", |prototype| {
    let name = |this: This<Class<'js, Metric>>| this.0.borrow().name.clone();
    prototype.prop("name", Accessor::from(name).enumerable())?;
    define(prototype, "add", add)
});

fn construct<'js>(
    ctx: &Ctx<'js>,
    name: &str,
    kind: MetricKind,
    is_time: bool,
) -> Result<Class<'js, Metric>> {
    let user = User::of(ctx);
    ensure(ctx, user.is_initialising(), "metrics must be declared in the init context")?;
    let contains = if is_time { Contains::Time } else { Contains::Default };
    let defined = user.run.registry().define(name, kind, contains);
    match defined {
        Ok(id) => Class::instance(ctx.clone(), Metric { name: name.to_owned(), id }),
        Err(error) => Err(Exception::throw_message(ctx, &error.to_string())),
    }
}

/// `add(value, tags?)`: booleans count as 1 and 0; other values that are no numbers are refused with a warning.
fn add<'js>(
    ctx: Ctx<'js>,
    this: This<Class<'js, Metric>>,
    value: Value<'js>,
    tags: Opt<Value<'js>>,
) -> Result<bool> {
    let user = running_user(&ctx, "metrics cannot be added in the init context")?;
    let metric = this.0.borrow();
    let number = if value.is_null() { f64::NAN } else { value.get::<Coerced<f64>>()?.0 };
    if !number.is_finite() {
        let message = format!(
            "'{}' is an invalid value for metric '{}', a number or a boolean value is expected",
            to_text(&value),
            metric.name
        );
        if user.run.settings().throw {
            return Err(Exception::throw_type(&ctx, &message));
        }
        user.run.log.write_limited(Level::Warning, &message, &[]);
        return Ok(false);
    }
    let tags = tags_from(&ctx, tags.0)?;
    let check = tags.iter().flatten().find(|(tag, name)| tag == "check" && !name.contains("::"));
    match check {
        // The metric of `check()`: its tag is the name of the check.
        Some((_, name)) if metric.id == Builtin::Checks.id() => {
            user.add_check(name, number != 0.0, tags.as_deref());
        }
        _ => user.add(metric.id, number, tags.as_deref()),
    }
    Ok(true)
}
