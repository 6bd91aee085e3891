//! Webhooks for an API server in the same process: it finds the reviewer by the URL, without sockets and certificates.

use futures::future::BoxFuture;
use serde_json::{Map, Value};

use super::client_config::{ClientConfig, Target, decoded};
use super::peer::RequestPeer;
use super::reviewer::{Reviewed, ReviewedBody};
use super::reviewers::Reviewers;

/// The beginning of the URLs. No server listens there: the name is reserved for such uses.
const PREFIX: &str = "https://kopfd.internal/";

/// The reason why a webhook in the same process has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswered {
    /// The operator does not run.
    Refused,
    /// The HTTP status of the answer.
    Status(u16),
}

/// Returns the client configuration of an operator's webhooks.
pub fn address(operator: &str) -> ClientConfig {
    ClientConfig { target: Target::Url(format!("{PREFIX}{operator}")), authorities: None }
}

/// Answers a review that the API server sends to a URL. `None` if it is no URL of webhooks in this process.
pub fn answer(
    reviewers: &Reviewers,
    url: &str,
    review: &Value,
) -> Option<BoxFuture<'static, Result<Value, Unanswered>>> {
    let (operator, id) = url.strip_prefix(PREFIX)?.split_once('/')?;
    let (reviewer, id, review) = (reviewers.of_operator(operator), decoded(id)?, review.clone());
    Some(Box::pin(async move {
        let Some(reviewer) = reviewer else { return Err(Unanswered::Refused) };
        match reviewer.review(Some(&id), review, sender()).await {
            Reviewed { status: 200, body: ReviewedBody::Review(answer) } => Ok(answer),
            Reviewed { status, .. } => Err(Unanswered::Status(status)),
        }
    }))
}

/// The headers that API servers send.
fn sender() -> RequestPeer {
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, */*"),
        ("user-agent", "kube-apiserver-admission"),
    ];
    let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value)));
    RequestPeer { headers: headers.collect(), certificate: Map::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[tokio::test]
    async fn only_urls_of_this_process_are_answered_and_those_of_missing_operators_refused() {
        let Target::Url(url) = address("demo").target else { panic!() };
        let answered = |url: &str| answer(&Reviewers::default(), url, &json!({}));
        assert_eq!(answered(&format!("{url}/fn")).unwrap().await, Err(Unanswered::Refused));
        assert!(answered("https://elsewhere.example.com/demo/fn").is_none() && answered(&url).is_none());
    }
}
