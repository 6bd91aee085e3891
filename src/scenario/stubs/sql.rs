//! The answers of databases.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::super::problem::Problem;
use super::super::timeline::{Event, Timeline};
use super::counted::CountedStubs;
use super::declared::{SqlStub, matches};
use super::unexpected::UnexpectedCalls;
use crate::script::outside::sql::{
    Database, Databases, Reply, SqlError, SqlProblem, SqlValue, Statement, Transaction, TransactionEnd,
};

/// The databases of one run.
#[derive(Clone)]
pub(in super::super) struct SqlStubs(Arc<Inner>);

struct Inner {
    stubs: CountedStubs<SqlStub>,
    timeline: Arc<Timeline>,
    unexpected: Arc<UnexpectedCalls>,
}

impl SqlStubs {
    /// Returns databases that have answered nothing yet.
    pub(in super::super) fn new(
        stubs: Vec<SqlStub>,
        timeline: Arc<Timeline>,
        unexpected: Arc<UnexpectedCalls>,
    ) -> Self {
        let stubs = CountedStubs::new(stubs, |stub| stub.times);
        Self(Arc::new(Inner { stubs, timeline, unexpected }))
    }
}

impl Inner {
    fn record(&self, what: String) {
        self.timeline.add(Event::Operator(what));
    }

    /// Returns the stub that answers a statement, and counts it.
    fn take(&self, database: &Database, text: &str, statement: &Statement) -> Option<&SqlStub> {
        self.stubs.take(|stub| {
            let is_params = || {
                let given = statement.params.iter().map(SqlValue::to_json);
                stub.params.as_ref().is_none_or(|params| given.eq(params.iter().cloned()))
            };
            matches(&stub.connection, &database.title) && matches(&stub.statement, text) && is_params()
        })
    }

    async fn answer(&self, database: &Database, statement: &Statement) -> Result<Reply, SqlError> {
        let text = statement.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let title = &database.title;
        let Some(stub) = self.take(database, &text, statement) else {
            let shown = shown(&text);
            let problem = Problem::from(format!("no stub answers the statement to {title}: {shown}"));
            let words = text.split(' ').take(2).collect::<Vec<_>>().join(" ");
            let hint =
                format!("add a stub: `given: {{sql: [{{connection: {title:?}, statement: \"{words}*\", rows: []}}]}}`");
            self.unexpected.note(problem.with_hint(hint));
            return Err(SqlError::new(SqlProblem::Unexpected, "no stub of the scenario answers this"));
        };
        tokio::time::sleep(stub.takes.min(statement.timeout)).await;
        let result = result(stub, statement);
        let how = match &result {
            Ok(reply) if stub.reply.columns.is_empty() => format!("{} rows are affected", reply.affected),
            Ok(reply) => format!("{} rows", reply.rows.len()),
            Err(error) => error.message.clone(),
        };
        self.record(format!("{title}: {}: {how}", shown(&text)));
        result
    }
}

fn result(stub: &SqlStub, statement: &Statement) -> Result<Reply, SqlError> {
    if stub.takes >= statement.timeout {
        let message =
            format!("the statement has not ended within {} seconds, and is cancelled", statement.timeout.as_secs_f64());
        return Err(SqlError::new(SqlProblem::Timeout, message));
    }
    if let Some(error) = &stub.error {
        return Err(error.clone());
    }
    if stub.reply.rows.len() > statement.rows {
        let message =
            format!("the result has more than {} rows: add a LIMIT to the query, or raise `rows`", statement.rows);
        return Err(SqlError::new(SqlProblem::TooLarge, message));
    }
    Ok(stub.reply.clone())
}

/// Returns a statement without its constants, which may be passwords.
fn shown(text: &str) -> String {
    let parts = text.split('\'').enumerate().map(|(index, part)| if index % 2 == 1 { "…" } else { part });
    parts.collect::<Vec<_>>().join("'")
}

impl Databases for SqlStubs {
    fn run(&self, database: Arc<Database>, statement: Statement) -> BoxFuture<'_, Result<Reply, SqlError>> {
        async move { self.0.answer(&database, &statement).await }.boxed()
    }

    fn begin(&self, database: Arc<Database>, _: Duration) -> BoxFuture<'_, Result<Box<dyn Transaction>, SqlError>> {
        self.0.record(format!("{}: a transaction begins", database.title));
        let transaction = StubbedTransaction { stubs: self.clone(), database };
        std::future::ready(Ok(Box::new(transaction) as Box<dyn Transaction>)).boxed()
    }
}

/// A transaction: the stubs answer in it, too.
struct StubbedTransaction {
    stubs: SqlStubs,
    database: Arc<Database>,
}

impl Transaction for StubbedTransaction {
    fn run(&mut self, statement: Statement) -> BoxFuture<'_, Result<Reply, SqlError>> {
        async move { self.stubs.0.answer(&self.database, &statement).await }.boxed()
    }

    fn end(self: Box<Self>, how: TransactionEnd, _: Duration) -> BoxFuture<'static, Result<(), SqlError>> {
        let what = if how == TransactionEnd::Commit { "committed" } else { "rolled back" };
        self.stubs.0.record(format!("{}: the transaction is {what}", self.database.title));
        std::future::ready(Ok(())).boxed()
    }
}
