//! Names and constants as text of statements: a value of a script becomes one name or one constant, whatever it
//! contains.

use super::database::Driver;

/// The reason why a text cannot be quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QuoteProblem {
    /// A name is empty.
    #[error("a name is empty")]
    Empty,
    /// It has a zero character, which servers take as an end.
    #[error("it has a zero character")]
    Zero,
    /// A name is longer than the server's names are: it would be cut, and mean another thing.
    #[error("a name has more than {0}")]
    TooLong(&'static str),
}

/// Returns a name in the quotes of a driver.
///
/// # Errors
/// If it cannot be a name.
pub(crate) fn ident(driver: Driver, name: &str) -> Result<String, QuoteProblem> {
    if name.is_empty() {
        return Err(QuoteProblem::Empty);
    }
    if name.contains('\0') {
        return Err(QuoteProblem::Zero);
    }
    match driver {
        Driver::Postgres if name.len() > 63 => Err(QuoteProblem::TooLong("63 bytes")),
        Driver::Mysql if name.chars().count() > 64 => Err(QuoteProblem::TooLong("64 characters")),
        Driver::Mysql => Ok(format!("`{}`", name.replace('`', "``"))),
        Driver::Postgres | Driver::Sqlite => Ok(format!("\"{}\"", name.replace('"', "\"\""))),
    }
}

/// Returns a text as a constant of a driver.
///
/// # Errors
/// If it cannot be a constant.
pub(crate) fn literal(driver: Driver, text: &str) -> Result<String, QuoteProblem> {
    if text.contains('\0') {
        return Err(QuoteProblem::Zero);
    }
    let doubled = text.replace('\'', "''");
    Ok(match driver {
        // Means the same, however the server takes backslashes in plain constants.
        Driver::Postgres if text.contains('\\') => format!(" E'{}'", doubled.replace('\\', "\\\\")),
        // The connections of kopfd take backslashes as escapes.
        Driver::Mysql => format!("'{}'", doubled.replace('\\', "\\\\")),
        Driver::Postgres | Driver::Sqlite => format!("'{doubled}'"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_only_where_they_end() {
        assert_eq!(ident(Driver::Postgres, r#"a"; DROP"#).unwrap(), r#""a""; DROP""#);
        assert_eq!(ident(Driver::Mysql, "a`b").unwrap(), "`a``b`");
        assert_eq!(ident(Driver::Sqlite, "a`b").unwrap(), "\"a`b\"");
        assert_eq!(ident(Driver::Postgres, ""), Err(QuoteProblem::Empty));
        assert_eq!(ident(Driver::Mysql, "a\0"), Err(QuoteProblem::Zero));
        assert_eq!(ident(Driver::Postgres, &"é".repeat(32)), Err(QuoteProblem::TooLong("63 bytes")));
        assert!(ident(Driver::Mysql, &"é".repeat(64)).is_ok());
    }

    #[test]
    fn constants_end_only_where_they_end() {
        assert_eq!(literal(Driver::Postgres, "it's").unwrap(), "'it''s'");
        assert_eq!(literal(Driver::Postgres, r"\'").unwrap(), r" E'\\'''");
        assert_eq!(literal(Driver::Mysql, r"\'").unwrap(), r"'\\'''");
        assert_eq!(literal(Driver::Sqlite, r"\'").unwrap(), r"'\'''");
        assert_eq!(literal(Driver::Sqlite, "\0"), Err(QuoteProblem::Zero));
    }
}
