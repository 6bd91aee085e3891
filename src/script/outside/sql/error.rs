//! The errors of statements.

/// An error of a database. The message contains neither passwords nor parameters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SqlError {
    /// The kind of the failure.
    pub problem: SqlProblem,
    /// The text.
    pub message: String,
    /// The state of SQL, of five characters, if the server has given one.
    pub sqlstate: Option<String>,
    /// The number of the server's error, if it has one.
    pub code: Option<i64>,
}

impl SqlError {
    /// Returns an error that is not one of a server.
    pub fn new(problem: SqlProblem, message: impl Into<String>) -> Self {
        Self { problem, message: message.into(), sqlstate: None, code: None }
    }
}

/// The kind of a failure. Scripts see its name as the `reason` of the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlProblem {
    /// The connection, the host, or an address that it stands for, is not allowed.
    Forbidden,
    /// There is no connection: the server has not seen the statement.
    Connect,
    /// The server does not accept the user and the password.
    Login,
    /// The certificate of the server is not accepted.
    Tls,
    /// The connection has ended.
    Broken,
    /// It took too long. The statement is cancelled.
    Timeout,
    /// There are too many rows, or too many bytes.
    TooLarge,
    /// The server refuses the statement.
    Statement,
    /// A parameter or a value of the result has a type that cannot be used.
    Value,
    /// The transaction has ended.
    Ended,
    /// No stub of the scenario answers the statement.
    Unexpected,
}

impl SqlProblem {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Forbidden,
        Self::Connect,
        Self::Login,
        Self::Tls,
        Self::Broken,
        Self::Timeout,
        Self::TooLarge,
        Self::Statement,
        Self::Value,
        Self::Ended,
        Self::Unexpected,
    ];

    /// Returns the name that scripts see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "Forbidden",
            Self::Connect => "Connect",
            Self::Login => "Login",
            Self::Tls => "Tls",
            Self::Broken => "Broken",
            Self::Timeout => "Timeout",
            Self::TooLarge => "TooLarge",
            Self::Statement => "Statement",
            Self::Value => "Value",
            Self::Ended => "Ended",
            Self::Unexpected => "Unexpected",
        }
    }
}
