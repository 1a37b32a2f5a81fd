//! `mysql`, `redis` and `nginx`: where such servers are beside the server.

use super::super::reader::Reader;
use crate::observe::database::{Address, Addresses, Engine};

pub(crate) fn beside(reader: &mut Reader<'_>) -> Addresses {
    let [mysql, redis, nginx] = Engine::ALL.map(|engine| {
        let address = reader.text(engine.key());
        address.and_then(|address| checked(reader, engine, address, true))
    });
    Addresses { mysql, redis, nginx }
}

/// An address, if it is one. In a `template`, placeholders are filled in later.
pub(crate) fn checked(
    reader: &Reader<'_>,
    engine: Engine,
    text: String,
    template: bool,
) -> Option<Address> {
    let address = Address::new(text);
    let checked = address.check(engine, template);
    checked.map_err(|why| reader.refuse_because(engine.key(), why)).ok().map(|()| address)
}
