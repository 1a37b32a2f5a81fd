//! `http.batch()`: many requests at once, at most `batch` of them and `batchPerHost` to one host.

use std::collections::HashMap;
use std::rc::Rc;

use futures_util::stream::{FuturesOrdered, StreamExt as _};
use rquickjs::{Array, Coerced, Ctx, Exception, Object, Result, Value};
use tokio::sync::Semaphore;

use super::request::{Arguments, Performed, Prepared, finish, perform, prepare};
use super::running_user;
use crate::script::user::User;

const MAX_REQUESTS: usize = 10_000;

/// `batch(requests)`: the responses, under the keys of the requests.
pub(super) fn batch<'js>(ctx: Ctx<'js>, requests: Value<'js>) -> Result<Value<'js>> {
    let user = running_user(&ctx, "Using batch in the init context is not supported")?;
    let Some(object) = requests.as_object() else {
        let message = format!("invalid http.batch() argument type {}", requests.type_name());
        return Err(Exception::throw_type(&ctx, &message));
    };
    let mut keys = Vec::new();
    let mut prepared = Vec::new();
    for entry in object.props::<String, Value<'js>>() {
        let (key, value) = entry?;
        if prepared.len() >= MAX_REQUESTS {
            let message = format!("more than {MAX_REQUESTS} requests in one http.batch()");
            return Err(Exception::throw_message(&ctx, &message));
        }
        prepared.push(prepare(&ctx, &user, read(&ctx, &key, value)?)?);
        keys.push(key);
    }
    let answers = user.wait(&ctx, send_all(&user, prepared))?;
    let result = match object.as_array() {
        Some(_) => Array::new(ctx.clone())?.into_object(),
        None => Object::new(ctx.clone())?,
    };
    for (key, performed) in keys.into_iter().zip(answers) {
        result.set(key, finish(&ctx, &user, performed)?)?;
    }
    Ok(result.into_value())
}

/// Sends all requests within the limits; returns the results in the order of the requests.
async fn send_all(user: &User, requests: Vec<Prepared>) -> Vec<Performed> {
    let limits = user.run.settings();
    let all = Semaphore::new(limits.batch.max(1) as usize);
    let per_host = match limits.batch_per_host {
        0 => Semaphore::MAX_PERMITS,
        limit => limit as usize,
    };
    let mut hosts: HashMap<Rc<str>, Rc<Semaphore>> = HashMap::new();
    let requests: FuturesOrdered<_> = requests
        .into_iter()
        .map(|request| {
            let host = request.authority().map(|authority| {
                hosts.entry(authority).or_insert_with(|| Rc::new(Semaphore::new(per_host))).clone()
            });
            let all = &all;
            async move {
                // The host's limit first: a request that waits for a busy host must not hold a permit that one to
                // another host could use.
                let _host = match &host {
                    Some(host) => host.acquire().await.ok(),
                    None => None,
                };
                let _one = all.acquire().await.ok();
                perform(user, request).await
            }
        })
        .collect();
    requests.collect().await
}

/// One request of a batch: an address, `[method, url, body?, params?]`, or `{method?, url, body?, params?}`.
fn read<'js>(ctx: &Ctx<'js>, key: &str, value: Value<'js>) -> Result<Arguments<'js>> {
    let present = |value: Value<'js>| Some(value).filter(|value| !value.is_undefined());
    // The result of `http.url` also has a member `url`.
    let object = match value.as_object() {
        Some(object) if object.is_array() || !object.contains_key("clean_url")? => object,
        _ => return Ok(Arguments { method: "GET".into(), url: value, body: None, params: None }),
    };
    if let Some(list) = object.as_array() {
        if list.len() < 2 {
            let message = format!("invalid batch request {key}: [method, url, …] is expected");
            return Err(Exception::throw_type(ctx, &message));
        }
        let method: Coerced<String> = list.get(0)?;
        let method = method.0.to_ascii_uppercase().into();
        let (body, params) = (present(list.get(2)?), present(list.get(3)?));
        return Ok(Arguments { method, url: list.get(1)?, body, params });
    }
    let Some(url) = present(object.get("url")?) else {
        let message = format!("batch request {key} doesn't have a url key");
        return Err(Exception::throw_type(ctx, &message));
    };
    let method = match present(object.get("method")?) {
        Some(method) => method.get::<Coerced<String>>()?.0.to_ascii_uppercase(),
        None => "GET".to_owned(),
    };
    let body = present(object.get("body")?).filter(|_| !matches!(method.as_str(), "GET" | "HEAD"));
    let params = present(object.get("params")?);
    Ok(Arguments { method: method.into(), url, body, params })
}
