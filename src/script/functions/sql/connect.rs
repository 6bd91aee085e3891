//! `sql::connect`: a connection from a Secret at run time, to a server that `allow.sql` lists, or to another database
//! of a declared one.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhai::Dynamic;
use serde_json::{Map, Value};

use super::connection::Connection;
use super::thrown::thrown;
use crate::script::functions::options::{Options, json};
use crate::script::functions::support::{Given, Native, Thrown, wrong};
use crate::script::outside::sql::{
    Authorities, Database, DatabasePlace, Driver, Hidden, Password, Server, ServerAddress, SqlError, SqlLimits,
    SqlProblem, Tls, host_of,
};
use crate::script::outside::{Grants, is_place_allowed};
use crate::script::runtime::context::Context;

const FUNCTION: &str = "sql::connect";

/// The keys, each with the other names that Secrets have for it.
const KEYS: [(&str, &[&str]); 8] = [
    ("driver", &[]),
    ("host", &["hostname"]),
    ("port", &[]),
    ("database", &["dbname"]),
    ("user", &["username"]),
    ("password", &[]),
    ("tls", &[]),
    ("ca", &["ca.crt"]),
];

/// `sql::connect(given, [options])`: a connection by the entries of a map, or of a Secret. Options take precedence.
/// With the name of a declared database: a connection to another one of its server.
pub(super) fn connect(native: &Native<'_>, given: &Dynamic, options: Option<&Dynamic>) -> Given {
    let context = Context::of(native)?;
    context.acts(FUNCTION)?;
    if given.is_string() || given.is::<Connection>() {
        let declared = Connection::of(&context, FUNCTION, given)?;
        return beside(&declared.database, options)
            .map(|database| Dynamic::from(Connection { database, transaction: None }));
    }
    let mut entries = entries(json(FUNCTION, given)?, true)?;
    if let Some(options) = options {
        entries.extend(self::entries(json(FUNCTION, options)?, false)?);
    }
    let database = database(&context, &entries)?;
    Ok(Dynamic::from(Connection { database: Arc::new(database), transaction: None }))
}

/// Returns another database of the server of this one.
fn beside(declared: &Arc<Database>, options: Option<&Dynamic>) -> Result<Arc<Database>, Thrown> {
    let options = Options::read(FUNCTION, &["database"], options)?;
    let name = options.text("database")?.ok_or_else(|| wrong(FUNCTION, "the option `database` is missing"))?;
    let mut other = Database::clone(declared);
    let DatabasePlace::Server(server) = &mut other.place else {
        return Err(wrong(FUNCTION, "a file of SQLite has no other databases"));
    };
    server.database = Some(name.to_owned());
    other.title = format!("{}/{name}", declared.title);
    Ok(Arc::new(other))
}

/// Returns the entries by their own names. A Secret may have others, too.
fn entries(given: Value, may_be_secret: bool) -> Result<Map<String, Value>, Thrown> {
    let Value::Object(mut given) = given else { return Err(wrong(FUNCTION, "a connection is a map, or a Secret")) };
    let is_secret = may_be_secret && given.get("kind").and_then(Value::as_str) == Some("Secret");
    if is_secret {
        let Some(Value::Object(data)) = given.remove("data") else {
            return Err(wrong(FUNCTION, "the Secret has no data"));
        };
        let decoded = |(key, value): (String, Value)| {
            let text = STANDARD.decode(value.as_str()?).ok().and_then(|bytes| String::from_utf8(bytes).ok())?;
            Some((key, Value::String(text)))
        };
        given = data.into_iter().filter_map(decoded).collect();
    }
    let mut entries = Map::new();
    for (key, value) in given {
        match KEYS.iter().find(|(name, others)| *name == key || others.contains(&key.as_str())) {
            Some((name, _)) if !value.is_null() => drop(entries.insert((*name).to_owned(), value)),
            None if !is_secret => {
                let known = KEYS.map(|(name, _)| name).join(", ");
                return Err(wrong(FUNCTION, format!("there is no key `{key}`: there are {known}")));
            }
            _ => {}
        }
    }
    Ok(entries)
}

fn database(context: &Context, entries: &Map<String, Value>) -> Result<Database, Thrown> {
    let text = |key: &str| match entries.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim_end_matches('\n').to_owned())),
        Some(_) => Err(wrong(FUNCTION, format!("`{key}` must be a text"))),
    };
    let driver = text("driver")?.ok_or_else(|| wrong(FUNCTION, "`driver` is missing: \"postgres\" or \"mysql\""))?;
    let driver = Driver::of(&driver).filter(|driver| *driver != Driver::Sqlite);
    let driver = driver
        .ok_or_else(|| wrong(FUNCTION, "`driver` must be \"postgres\" or \"mysql\": files of SQLite are declared"))?;
    let host = text("host")?
        .and_then(|host| host_of(&host))
        .ok_or_else(|| wrong(FUNCTION, "`host` must be the name of a host"))?;
    let port = match entries.get("port") {
        None => Some(driver.default_port()),
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(number) => number.as_u64().and_then(|number| u16::try_from(number).ok()),
    };
    let port = port.ok_or_else(|| wrong(FUNCTION, "`port` must be a number up to 65535"))?;
    let listed = &context.allow().sql;
    let bracketed = ServerAddress::url_host(&host);
    let is_listed = url::Host::parse(&bracketed).is_ok_and(|host| {
        let host = match &host {
            url::Host::Domain(name) => url::Host::Domain(name.as_str()),
            url::Host::Ipv4(address) => url::Host::Ipv4(*address),
            url::Host::Ipv6(address) => url::Host::Ipv6(*address),
        };
        is_place_allowed(listed, &host, port, driver.default_port())
    });
    let database = text("database")?;
    let title = format!("{}://{bracketed}:{port}/{}", driver.as_str(), database.as_deref().unwrap_or_default());
    if !is_listed {
        let message = format!("`{FUNCTION}`: the server {bracketed}:{port} is not listed under `allow.sql`");
        return Err(thrown(SqlError::new(SqlProblem::Forbidden, message)).into());
    }
    let tls = match (entries.get("tls"), text("ca")?) {
        (Some(Value::Bool(false)), _) => Tls::Off,
        (Some(Value::String(text)), _) if matches!(text.trim(), "false" | "off") => Tls::Off,
        (Some(Value::String(text)), _) if !matches!(text.trim(), "true" | "verify") => {
            return Err(wrong(FUNCTION, "`tls` must be true or false"));
        }
        (_, Some(pem)) => Tls::Verified(Authorities::Pem(pem)),
        _ => Tls::Verified(Authorities::System),
    };
    let server = Server {
        host,
        port,
        database,
        user: text("user")?.unwrap_or_else(|| driver.default_user().to_owned()),
        password: text("password")?.map_or(Password::None, |password| Password::Given(Hidden(password))),
        tls,
        grants: Grants::of(listed),
    };
    Ok(Database { title, driver, place: DatabasePlace::Server(Box::new(server)), limits: SqlLimits::default() })
}
