//! Expected statuses: `http.expectedStatuses`, `http.setResponseCallback` and the parameter `responseCallback`.

use std::rc::Rc;

use rquickjs::class::Trace;
use rquickjs::function::Rest;
use rquickjs::{Class, Coerced, Ctx, Exception, JsLifetime, Result, Value};

use super::ensure;
use crate::script::user::User;

/// Condition for a response that is not failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExpectedStatuses {
    /// Ranges of statuses, both ends included.
    Within(Vec<(u16, u16)>),
    /// Not judged: `http_req_failed` is not counted.
    Unjudged,
}

impl Default for ExpectedStatuses {
    /// k6's: 200–399.
    fn default() -> Self {
        Self::Within(vec![(200, 399)])
    }
}

impl ExpectedStatuses {
    /// True if `status` (0 for no response) is expected; `None` when it is not judged.
    pub(crate) fn judge(&self, status: u16) -> Option<bool> {
        match self {
            Self::Within(ranges) => {
                Some(ranges.iter().any(|(min, max)| (*min..=*max).contains(&status)))
            }
            Self::Unjudged => None,
        }
    }
}

/// Result of `expectedStatuses`.
#[derive(JsLifetime, Trace)]
pub(super) struct Callback(#[qjs(skip_trace)] Rc<ExpectedStatuses>);

script_class!(Callback, "ExpectedStatuses", |_| Ok(()));

/// `expectedStatuses(200, {min: 300, max: 302}, …)`.
pub(super) fn expected_statuses<'js>(
    ctx: Ctx<'js>,
    arguments: Rest<Value<'js>>,
) -> Result<Class<'js, Callback>> {
    ensure(&ctx, !arguments.0.is_empty(), "no arguments")?;
    let ranges: Option<Vec<(u16, u16)>> = arguments.0.iter().map(range).collect();
    let ranges = ranges.ok_or_else(|| {
        let message =
            "argument must be integers or objects of format {min: <integer>, max: <integer>}";
        Exception::throw_type(&ctx, message)
    })?;
    Class::instance(ctx, Callback(Rc::new(ExpectedStatuses::Within(ranges))))
}

fn range(argument: &Value<'_>) -> Option<(u16, u16)> {
    let whole = |number: f64| {
        (number.fract() == 0.0 && (0.0..=f64::from(u16::MAX)).contains(&number))
            .then_some(number as u16)
    };
    if let Some(status) = argument.as_number() {
        return whole(status).map(|status| (status, status));
    }
    let object = argument.as_object()?;
    let field = |name: &str| object.get::<_, Value<'_>>(name).ok()?.as_number().and_then(whole);
    Some((field("min")?, field("max")?))
}

/// `setResponseCallback(callback | null)`: applies to all further requests of this virtual user.
pub(super) fn set_response_callback<'js>(ctx: Ctx<'js>, callback: Value<'js>) -> Result<()> {
    let expected = read(&ctx, &callback)?;
    User::of(&ctx).expected.replace(expected);
    Ok(())
}

/// Reads a callback; `null` is no judgement.
pub(super) fn read<'js>(ctx: &Ctx<'js>, callback: &Value<'js>) -> Result<Rc<ExpectedStatuses>> {
    if callback.is_null() || callback.is_undefined() {
        return Ok(Rc::new(ExpectedStatuses::Unjudged));
    }
    match Class::<Callback>::from_value(callback) {
        Ok(callback) => Ok(callback.borrow().0.clone()),
        Err(_) => {
            let given = callback.get::<Coerced<String>>().map(|text| text.0).unwrap_or_default();
            let message = format!("unsupported argument, expected http.expectedStatuses: {given}");
            Err(Exception::throw_type(ctx, &message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_default_2xx_and_3xx_are_expected() {
        let judge = |status| ExpectedStatuses::default().judge(status);
        assert_eq!([0, 199, 200, 399, 400].map(judge), [false, false, true, true, false].map(Some));
        assert_eq!(ExpectedStatuses::Unjudged.judge(500), None);
    }
}
