//! The databases of scripts: `spec.connections`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::reader::{Fields, Item, Reader};
use super::secret_keys;
use crate::object::SecretKey;
use crate::script::outside::Grants;
use crate::script::outside::sql::{
    Authorities, Database, DatabasePlace, Driver, MAX_CONNECTIONS, MAX_ROWS, Password, PlaceProblem, Server,
    ServerAddress, SqlLimits, Tls,
};

const FORM: &str = "write such as `orders: {driver: postgres, url: \"postgres://orders.svc/main\", passwordFrom: {secret: orders, key: password}}`";
const FILE: &str = "write such as `cache: {driver: sqlite, file: data/cache.db, write: true}`";

/// The keys of servers, and those of files.
const SERVER: [&str; 5] = ["url", "passwordFrom", "tls", "ca", "caFrom"];
const OF_FILES: [&str; 2] = ["file", "write"];
const LIMITS: [&str; 4] = ["rows", "timeout", "connections", "idle"];

/// Reads the databases. Files are relative to the folder of the manifest.
pub(super) fn read(reader: &Reader, item: &Item<'_>) -> BTreeMap<String, Arc<Database>> {
    let Some(entries) = item.entries() else {
        reader.mistyped(item, "a mapping of databases by name", FORM);
        return BTreeMap::new();
    };
    entries
        .into_iter()
        .filter_map(|(name, item)| Some((name.to_owned(), Arc::new(database(reader, name, &item)?))))
        .collect()
}

fn database(reader: &Reader, name: &str, item: &Item<'_>) -> Option<Database> {
    let known = [&["driver"][..], &SERVER, &OF_FILES, &LIMITS].concat();
    let special = |key: &str| match key {
        "password" => Some((
            "a password does not belong into a manifest".to_owned(),
            "name the Secret that has it: `passwordFrom: {secret: orders-admin, key: password}`".to_owned(),
        )),
        "user" | "host" | "port" | "database" => Some((
            format!("`{key}` is a part of the address"),
            "write `url: \"postgres://host:5432/database\"`, with the user before the host and an `@`".to_owned(),
        )),
        _ => None,
    };
    let fields = reader.fields_but(item, "a database", &known, special)?;
    let limits = limits(reader, &fields);
    let driver = reader.required(&fields, "driver", FORM).and_then(|item| driver(reader, &item))?;
    let (wrong, hint) = if driver == Driver::Sqlite { (&SERVER[..], FILE) } else { (&OF_FILES[..], FORM) };
    for key in wrong {
        if let Some(item) = fields.get(key) {
            reader.key_error(&item, format!("a database of the driver {} has no `{key}`", driver.as_str()), hint);
        }
    }
    let place = if driver == Driver::Sqlite { file(reader, &fields) } else { server(reader, &fields, driver) };
    Some(Database { title: name.to_owned(), driver, place: place?, limits })
}

fn driver(reader: &Reader, item: &Item<'_>) -> Option<Driver> {
    let names = [Driver::ALL.map(Driver::as_str).as_slice(), &["postgresql", "mariadb"]].concat();
    let driver = Driver::of(reader.word(item, &names)?)?;
    if driver.is_built() {
        return Some(driver);
    }
    let name = driver.as_str();
    reader.error_with(
        item,
        format!("this kopfd was built without the driver {name}"),
        format!("build it with the cargo feature `{name}`"),
    );
    None
}

fn server(reader: &Reader, fields: &Fields<'_>, driver: Driver) -> Option<DatabasePlace> {
    let tls = tls(reader, fields);
    let password = fields.get("passwordFrom").map(|item| secret_key(reader, &item));
    let item = reader.required(fields, "url", FORM)?;
    let text = reader.owned(&item)?;
    let address = match ServerAddress::parse(driver, &text) {
        Ok(address) => address,
        Err(problem) => {
            let hint = match problem {
                PlaceProblem::Password => {
                    "take it out of the address, and name its Secret: `passwordFrom: {secret: NAME, key: password}`"
                }
                PlaceProblem::Options => "the encryption is set by `tls`, `ca` and `caFrom` beside `url`",
                _ if driver == Driver::Mysql => "write such as `mysql://host:3306/database`",
                _ => "write such as `postgres://host:5432/database`",
            };
            // It may have a password.
            reader.error_with(&item, format!("the address of the database cannot be used: {problem}"), hint);
            return None;
        }
    };
    let ServerAddress { host, port, user, database } = address;
    let grants = Grants::of(&[ServerAddress::url_host(&host)]);
    let user = user.unwrap_or_else(|| driver.default_user().to_owned());
    let password = match password {
        Some(key) => Password::Secret(key?),
        None => Password::None,
    };
    Some(DatabasePlace::Server(Box::new(Server { host, port, database, user, password, tls: tls?, grants })))
}

fn tls(reader: &Reader, fields: &Fields<'_>) -> Option<Tls> {
    let authorities = match (fields.get("ca"), fields.get("caFrom")) {
        (Some(_), Some(item)) => {
            reader.key_error(&item, "the authorities are given twice, by `ca` and `caFrom`", "leave one of them out");
            return None;
        }
        (Some(item), None) => {
            let pem = reader.owned(&item)?;
            if !pem.contains("-----BEGIN CERTIFICATE-----") {
                reader.error_with(&item, "`ca` has no certificate", "write certificates in PEM");
                return None;
            }
            Some(Authorities::Pem(pem))
        }
        (None, Some(item)) => Some(Authorities::Secret(secret_key(reader, &item)?)),
        (None, None) => None,
    };
    let Some(item) = fields.get("tls") else { return Some(Tls::Verified(authorities.unwrap_or(Authorities::System))) };
    match reader.boolean(&item)? {
        true => Some(Tls::Verified(authorities.unwrap_or(Authorities::System))),
        false if authorities.is_some() => {
            reader.error_with(
                &item,
                "authorities have no meaning without TLS",
                "leave out `tls`, or `ca` and `caFrom`",
            );
            None
        }
        false => Some(Tls::Off),
    }
}

fn file(reader: &Reader, fields: &Fields<'_>) -> Option<DatabasePlace> {
    let item = reader.required(fields, "file", FILE)?;
    let text = reader.owned(&item)?;
    let path = Path::new(&text);
    if text.ends_with('/')
        || text.starts_with("file:")
        || text.contains('\0')
        || path.components().any(|part| part.as_os_str() == "..")
    {
        reader.error_with(&item, format!("`{text}` is not the path of a file"), FILE);
        return None;
    }
    let folder = reader.source.name.parent().unwrap_or(Path::new(""));
    Some(DatabasePlace::File { path: folder.join(path), is_writable: reader.flag(fields, "write").unwrap_or_default() })
}

fn secret_key(reader: &Reader, item: &Item<'_>) -> Option<SecretKey> {
    let fields = reader.fields(item, "a key of a Secret", &["secret", "namespace", "key"])?;
    secret_keys::secret_key(reader, &fields, None)
}

fn limits(reader: &Reader, fields: &Fields<'_>) -> SqlLimits {
    let mut limits = SqlLimits::default();
    let count = |key: &'static str, most: usize| {
        let item = fields.get(key)?;
        let range = 1..=i64::try_from(most).unwrap_or(i64::MAX);
        usize::try_from(reader.whole_in(&item, &range, "it is a limit for all calls of the operator")?).ok()
    };
    limits.rows = count("rows", MAX_ROWS).unwrap_or(limits.rows);
    limits.connections = count("connections", MAX_CONNECTIONS).unwrap_or(limits.connections);
    for (key, target) in [("timeout", &mut limits.timeout), ("idle", &mut limits.idle)] {
        let Some(item) = fields.get(key) else { continue };
        if let Some(time) = reader.duration_above_zero(&item, "leave it out for the default") {
            *target = time;
        }
    }
    limits
}
