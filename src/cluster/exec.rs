//! Commands in containers of pods: a WebSocket to the API server, which connects it with the container.

mod channels;
mod output;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue};
use rand::RngExt as _;
use sha1::{Digest as _, Sha1};
use tokio::time::timeout;

use super::address;
use super::client::Client;
use super::error::Error;
use super::transport::Duplex;
use channels::{Io, Version};
pub use output::{Output, Problem};

/// The text that servers append to the key of a WebSocket before they hash it (RFC 6455, section 1.3).
const ACCEPTANCE: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// The container; `None` if the pod has only one, or a default one.
    pub container: Option<String>,
    /// The program and its arguments.
    pub arguments: Vec<String>,
    /// The standard input; `None` if the command has none.
    pub stdin: Option<Vec<u8>>,
    /// The time limit, from the request to the exit code.
    pub time: Duration,
    /// The limit of the bytes of both outputs.
    pub output: usize,
}

/// The end of a command: its exit code or a problem, and its output until then.
pub type CommandResult = (Result<i32, Problem>, Output);

/// Runs a command in a container of the pod at a path.
///
/// *Cancel safety*: the connection is closed. The command is not killed: it ends by itself, as with kubectl.
pub(super) async fn run(client: &Client, pod: String, command: Command) -> CommandResult {
    let path = address::subresource(pod, "exec") + &query(&command);
    let versions: &[Version] = if command.stdin.is_some() { &[Version::V5] } else { &[Version::V5, Version::V4] };
    let mut output = Output::default();
    let done = timeout(command.time, exchange(client, &path, versions, &command, &mut output)).await;
    let done = match done {
        Err(_) => Err(Problem::Timeout(command.time)),
        // The protocol is negotiated before the request is seen: the server has no other words for it.
        Ok(Err(Problem::Request(Error::Status { status: 403, reason: None, details, retry_after, .. })))
            if command.stdin.is_some() =>
        {
            let message = "the server has refused the protocol v5.channel.k8s.io, without which a command cannot be told where its \
                           standard input ends"
                .to_owned();
            Err(Error::Status { status: 403, reason: None, message, details, retry_after }.into())
        }
        Ok(done) => done,
    };
    (done, output)
}

async fn exchange(
    client: &Client,
    path: &str,
    versions: &[Version],
    command: &Command,
    output: &mut Output,
) -> Result<i32, Problem> {
    let key = STANDARD.encode(rand::rng().random::<[u8; 16]>());
    let headers = handshake(&key, versions);
    // The client knows only errors of requests; the others are returned separately.
    let mut other = None;
    let ended = client
        .switched(path, &headers, async |answered: HeaderMap, duplex: Box<dyn Duplex>| {
            let version = accepted(&answered, &key, versions)?;
            let stdin = command.stdin.as_deref();
            match channels::run(Io { duplex, version, stdin, limit: command.output }, output).await {
                Ok(code) => Ok(code),
                Err(Problem::Request(error)) => Err(error),
                Err(problem) => {
                    other = Some(problem);
                    Ok(0)
                }
            }
        })
        .await?;
    other.map_or(Ok(ended), Err)
}

fn query(command: &Command) -> String {
    let Command { container, arguments, stdin, .. } = command;
    let container = container.iter().map(|container| ("container", container.as_str()));
    let stdin = stdin.iter().map(|_| ("stdin", "true"));
    let streams = [("stdout", "true"), ("stderr", "true")];
    let parameters: Vec<(&str, &str)> = container
        .chain(stdin)
        .chain(streams)
        .chain(arguments.iter().map(|argument| ("command", argument.as_str())))
        .collect();
    address::query(&parameters)
}

fn handshake(key: &str, versions: &[Version]) -> HeaderMap {
    let value = |text: &str| HeaderValue::from_str(text).expect("base64 and names of protocols are plain text");
    let names: Vec<&str> = versions.iter().map(|version| version.name()).collect();
    HeaderMap::from_iter([
        (CONNECTION, HeaderValue::from_static("Upgrade")),
        (UPGRADE, HeaderValue::from_static("websocket")),
        (SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13")),
        (SEC_WEBSOCKET_KEY, value(key)),
        (SEC_WEBSOCKET_PROTOCOL, value(&names.join(", "))),
    ])
}

/// Returns the protocol that the server has chosen.
fn accepted(answered: &HeaderMap, key: &str, versions: &[Version]) -> Result<Version, Error> {
    let text = |name| answered.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default();
    let wrong = |what: String| Error::Payload(what.into());
    let expected = STANDARD.encode(Sha1::digest(format!("{key}{ACCEPTANCE}")));
    if !text(UPGRADE).eq_ignore_ascii_case("websocket") || text(SEC_WEBSOCKET_ACCEPT) != expected {
        return Err(wrong("the server does not speak the WebSocket protocol".to_owned()));
    }
    let chosen = text(SEC_WEBSOCKET_PROTOCOL);
    let known = versions.iter().find(|version| version.name() == chosen);
    known.copied().ok_or_else(|| wrong(format!("the server speaks the protocol {chosen:?}, which was not offered")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6455.
    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

    fn answered(accept: &str, protocol: &'static str) -> Result<Version, String> {
        let headers = [
            (UPGRADE, HeaderValue::from_static("WebSocket")),
            (SEC_WEBSOCKET_ACCEPT, HeaderValue::from_str(accept).unwrap()),
            (SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol)),
        ];
        accepted(&HeaderMap::from_iter(headers), KEY, &[Version::V5]).map_err(|error| error.chain())
    }

    #[test]
    fn a_server_must_prove_the_handshake_and_choose_an_offered_protocol() {
        let right = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
        assert_eq!(answered(right, "v5.channel.k8s.io"), Ok(Version::V5));
        assert!(answered("x", "v5.channel.k8s.io").unwrap_err().contains("does not speak the WebSocket protocol"));
        for other in ["v4.channel.k8s.io", "", "channel.k8s.io"] {
            assert!(answered(right, other).unwrap_err().contains("which was not offered"), "{other}");
        }
    }

    #[test]
    fn each_argument_is_a_parameter_and_nothing_goes_through_a_shell() {
        let arguments = ["sh", "-c", "a & b; c=\"$d\"\n"].map(str::to_owned).to_vec();
        let command = Command { container: Some("main".to_owned()), arguments, ..Command::default() };
        assert_eq!(
            query(&command),
            "?container=main&stdout=true&stderr=true&command=sh&command=-c&command=a+%26+b%3B+c%3D%22%24d%22%0A"
        );
        let command = Command { stdin: Some(Vec::new()), arguments: vec!["cat".to_owned()], ..Command::default() };
        assert_eq!(query(&command), "?stdin=true&stdout=true&stderr=true&command=cat");
    }
}
