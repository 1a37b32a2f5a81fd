//! `mysql` and `redis`: where databases beside the server are.

use super::super::reader::{Located, Reader};
use crate::observe::database::{Address, Addresses, Engine};

pub fn beside(reader: &mut Reader<'_>) -> Addresses {
    let mysql = reader.text(Engine::Mysql.key());
    let redis = reader.text(Engine::Redis.key());
    let address = |engine, found: Option<Located<String>>| {
        found.and_then(|found| checked(reader, engine, found, true))
    };
    Addresses { mysql: address(Engine::Mysql, mysql), redis: address(Engine::Redis, redis) }
}

/// An address, if it is one. In a `template`, placeholders are filled in later.
pub fn checked(
    reader: &Reader<'_>,
    engine: Engine,
    found: Located<String>,
    template: bool,
) -> Option<Address> {
    let address = Address::new(found.value);
    match address.check(engine, template) {
        Ok(()) => Some(address),
        Err(why) => {
            let message = format!("`{}` in {}: {why}", engine.key(), reader.title());
            reader.mistakes().add(found.offset, message);
            None
        }
    }
}
