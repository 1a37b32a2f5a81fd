//! Check of the servers in the settings, without changing anything.

use super::servers::Servers;
use super::session::{Session, Use};
use super::{parse, replica, schema};
use crate::config::DatabaseSettings;
use crate::store::Result;

/// Returns a line for each server.
pub(crate) fn check(url: &str, settings: &DatabaseSettings) -> Result<Vec<String>> {
    let servers = Servers::parse(url)?;
    let looked = servers.look()?;
    let (session, _) = servers.connect(Use::Writes)?;
    let (found, known) = schema::versions(&session)?;
    let (tables, identity) = match found {
        None => ("no tables, made at the first start".to_owned(), None),
        Some(version) => {
            let identity = if version > 2 { schema::identity(&session)? } else { None };
            (format!("schema version {version} of {known}"), identity)
        }
    };
    let mut lines: Vec<_> =
        looked.into_iter().map(|server| format!("database: {server}, {tables}")).collect();
    for url in &settings.replicas {
        let options = parse("database.replicas", url)?;
        let name = replica::name(&options);
        let session = Session::connect(&options, Use::Brief)?;
        if identity.is_some() && schema::identity(&session)? != identity {
            return Err(replica::foreign());
        }
        let follows = if identity.is_some() { "has the same database" } else { "answers" };
        lines.push(format!("replica: {name} {follows}"));
    }
    Ok(lines)
}
