//! The addresses of servers of databases: `postgres://user@host:port/database`.

use percent_encoding::percent_decode_str;
use url::{Host, Url};

use super::database::Driver;

/// The parts of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerAddress {
    /// The host, in small letters; an IPv6 address is without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The user.
    pub user: Option<String>,
    /// The database.
    pub database: Option<String>,
}

/// The reason why an address is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlaceProblem {
    /// It is no address, or not one of a database.
    #[error("it is no address of a database")]
    Unreadable,
    /// Its scheme is that of another driver.
    #[error("its scheme is not that of the driver")]
    Scheme,
    /// It has a password.
    #[error("it has a password, which belongs into a Secret")]
    Password,
    /// It has parts that have no meaning.
    #[error("options after `?` and `#` are not supported")]
    Options,
    /// The host is missing or invalid.
    #[error("it has no host")]
    Host,
    /// The name of the database has a slash, or a part is not UTF-8.
    #[error("the name of the database cannot be read")]
    Database,
}

impl ServerAddress {
    /// Reads an address.
    ///
    /// # Errors
    /// The reason why it is invalid.
    pub(crate) fn parse(driver: Driver, text: &str) -> Result<Self, PlaceProblem> {
        let url = Url::parse(text).map_err(|_| PlaceProblem::Unreadable)?;
        if Driver::of(url.scheme()) != Some(driver) {
            return Err(PlaceProblem::Scheme);
        }
        if url.password().is_some() {
            return Err(PlaceProblem::Password);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(PlaceProblem::Options);
        }
        let decoded =
            |text: &str| percent_decode_str(text).decode_utf8().map(String::from).map_err(|_| PlaceProblem::Database);
        let host = host(&decoded(url.host_str().unwrap_or_default())?).ok_or(PlaceProblem::Host)?;
        let database = decoded(url.path().trim_start_matches('/'))?;
        if database.contains(['/', '\0']) {
            return Err(PlaceProblem::Database);
        }
        let user = decoded(url.username())?;
        Ok(Self {
            host,
            port: url.port().unwrap_or_else(|| driver.default_port()),
            user: Some(user).filter(|user| !user.is_empty()),
            database: Some(database).filter(|database| !database.is_empty()),
        })
    }

    /// Returns a host as it is written before a port.
    pub(crate) fn url_host(host: &str) -> String {
        if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
    }
}

/// Returns a host in its one spelling: small letters, no brackets, network addresses in their usual form. `None` if it
/// is invalid.
pub(crate) fn host(text: &str) -> Option<String> {
    let text = text.trim_end_matches('.');
    let parsed = Host::parse(text).or_else(|_| Host::parse(&format!("[{text}]"))).ok()?;
    Some(match parsed {
        Host::Domain(name) => name,
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_canonical().to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_maybe_a_port_a_user_and_a_database() {
        let parsed = ServerAddress::parse(Driver::Postgres, "postgres://admin@Orders.svc:6432/main").unwrap();
        let expected = ServerAddress {
            host: "orders.svc".to_owned(),
            port: 6432,
            user: Some("admin".to_owned()),
            database: Some("main".to_owned()),
        };
        assert_eq!(parsed, expected);
        let parsed = ServerAddress::parse(Driver::Mysql, "mariadb://[::1]").unwrap();
        assert_eq!(parsed, ServerAddress { host: "::1".to_owned(), port: 3306, user: None, database: None });
        let parsed = ServerAddress::parse(Driver::Postgres, "postgresql://0x7f.1/a%20b").unwrap();
        assert_eq!((parsed.host.as_str(), parsed.database.as_deref()), ("127.0.0.1", Some("a b")));
    }

    #[test]
    fn mistakes_of_addresses_have_reasons() {
        let problem = |text: &str| ServerAddress::parse(Driver::Postgres, text).unwrap_err();
        assert_eq!(problem("orders.svc"), PlaceProblem::Unreadable);
        assert_eq!(problem("mysql://orders.svc"), PlaceProblem::Scheme);
        assert_eq!(problem("postgres://a:b@orders.svc"), PlaceProblem::Password);
        assert_eq!(problem("postgres://orders.svc/a?sslmode=disable"), PlaceProblem::Options);
        assert_eq!(problem("postgres:///a"), PlaceProblem::Host);
        assert_eq!(problem("postgres://orders.svc/a/b"), PlaceProblem::Database);
    }
}
