//! The channels of a command in one WebSocket: each message begins with the number of its channel.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

use super::output::{Output, Problem};
use crate::cluster::error::Error;
use crate::cluster::transport::Duplex;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
/// The end of the channel whose number follows.
const CLOSE: u8 = 255;

/// The bytes of standard input in one message, as in kubectl.
const PIECE: usize = 32 << 10;

/// The longest message that is taken. Servers send what they read at once: 32 KiB.
const LONGEST: usize = 1 << 20;

/// How long the rest of the outputs may take after the status. Servers send the status last, and close the connection.
const REST: Duration = Duration::from_secs(1);

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// The end of standard input cannot be sent.
    V4,
    /// Channels can be closed.
    V5,
}

impl Version {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::V4 => "v4.channel.k8s.io",
            Self::V5 => "v5.channel.k8s.io",
        }
    }
}

/// A connection with a command.
pub(super) struct Io<'a> {
    pub duplex: Box<dyn Duplex>,
    pub version: Version,
    pub stdin: Option<&'a [u8]>,
    /// The most bytes of both outputs.
    pub limit: usize,
}

/// Writes the input, and reads the outputs until the exit code is known.
pub(super) async fn run(io: Io<'_>, output: &mut Output) -> Result<i32, Problem> {
    let Io { duplex, version, stdin, limit } = io;
    let config = WebSocketConfig::default()
        .max_message_size(Some(LONGEST))
        .max_frame_size(Some(LONGEST))
        .read_buffer_size(PIECE);
    let socket = WebSocketStream::from_raw_socket(duplex, Role::Client, Some(config)).await;
    let (to, from) = socket.split();
    tokio::select! {
        ended = read(from, limit, output) => ended,
        never = feed(to, version, stdin) => match never {},
    }
}

/// Writes the input. A command that does not read it may end before: its status decides, and not the failure of a
/// write.
async fn feed(
    mut to: SplitSink<WebSocketStream<Box<dyn Duplex>>, Message>,
    version: Version,
    stdin: Option<&[u8]>,
) -> Infallible {
    for piece in stdin.unwrap_or_default().chunks(PIECE) {
        if to.send(message(STDIN, piece)).await.is_err() {
            return std::future::pending().await;
        }
    }
    if stdin.is_some() && version == Version::V5 {
        // As above.
        let _ = to.send(message(CLOSE, &[STDIN])).await;
    }
    std::future::pending().await
}

fn message(channel: u8, data: &[u8]) -> Message {
    let mut bytes = Vec::with_capacity(data.len() + 1);
    bytes.push(channel);
    bytes.extend_from_slice(data);
    Message::Binary(bytes.into())
}

async fn read(
    mut from: SplitStream<WebSocketStream<Box<dyn Duplex>>>,
    limit: usize,
    output: &mut Output,
) -> Result<i32, Problem> {
    let status = loop {
        let Some(data) = next(&mut from).await? else {
            let ended = "the connection has ended before the command".into();
            return Err(Error::Connection(ended).into());
        };
        match data.split_first() {
            // Servers open channels with empty messages.
            Some((&STATUS, text)) if !text.is_empty() => break Bytes::copy_from_slice(text),
            Some((&channel, piece)) => output.take(channel, piece, limit)?,
            None => {}
        }
    };
    let rest = async {
        while let Ok(Some(data)) = next(&mut from).await {
            if let Some((&channel, piece)) = data.split_first() {
                output.take(channel, piece, limit)?;
            }
        }
        Ok(())
    };
    timeout(REST, rest).await.unwrap_or(Ok::<(), Problem>(()))?;
    exit_code(&status).map_err(Problem::Request)
}

/// Returns the next message; `None` at the end.
async fn next(from: &mut SplitStream<WebSocketStream<Box<dyn Duplex>>>) -> Result<Option<Bytes>, Error> {
    loop {
        match from.next().await {
            None | Some(Ok(Message::Close(_)) | Err(tungstenite::Error::ConnectionClosed)) => return Ok(None),
            Some(Ok(Message::Binary(data))) => return Ok(Some(data)),
            Some(Ok(Message::Text(_))) => {
                return Err(Error::Payload("the server has sent a text in place of bytes".into()));
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Err(error @ (tungstenite::Error::Capacity(_) | tungstenite::Error::Utf8(_)))) => {
                return Err(Error::Payload(error.into()));
            }
            Some(Err(error)) => return Err(Error::Connection(error.into())),
        }
    }
}

impl Output {
    /// Keeps the output of a command, up to the limit.
    fn take(&mut self, channel: u8, piece: &[u8], limit: usize) -> Result<(), Problem> {
        let left = limit.saturating_sub(self.stdout.len() + self.stderr.len());
        let to = match channel {
            STDOUT => &mut self.stdout,
            STDERR => &mut self.stderr,
            // Ends of channels.
            _ => return Ok(()),
        };
        to.extend_from_slice(&piece[..piece.len().min(left)]);
        if piece.len() > left { Err(Problem::TooMuchOutput(limit)) } else { Ok(()) }
    }
}

/// Returns the exit code in the status of a command.
fn exit_code(status: &[u8]) -> Result<i32, Error> {
    let mut status: Value = serde_json::from_slice(status).map_err(|error| Error::Payload(error.into()))?;
    if status["status"] == "Success" {
        return Ok(0);
    }
    if status["reason"] == "NonZeroExitCode" {
        let causes = status.pointer("/details/causes").and_then(Value::as_array);
        let code = causes
            .into_iter()
            .flatten()
            .find(|cause| cause["reason"] == "ExitCode")
            .and_then(|cause| cause["message"].as_str());
        let code = code.and_then(|code| code.parse().ok());
        return code.ok_or_else(|| Error::Payload("the status of the command has no exit code".into()));
    }
    // A kubelet leaves out what every status has.
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
    if let Some(status) = status.as_object_mut() {
        status.insert("kind".to_owned(), json!("Status"));
    }
    Err(Error::of_answer(code, None, status.to_string().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_has_the_exit_code_or_the_failure() {
        let code = |status: Value| exit_code(status.to_string().as_bytes());
        let ended = |code: &str| json!({"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [{"reason": "ExitCode", "message": code}]}});
        assert_eq!(code(json!({"metadata": {}, "status": "Success"})).unwrap(), 0);
        assert_eq!(code(ended("137")).unwrap(), 137);
        assert!(matches!(code(ended("x")), Err(Error::Payload(_))));
        assert!(matches!(exit_code(b"no JSON"), Err(Error::Payload(_))));
        let failed = code(
            json!({"status": "Failure", "message": "container not found (\"c\")", "reason": "InternalError", "code": 500}),
        );
        assert_eq!(failed.unwrap_err().to_string(), "HTTP 500 (InternalError): container not found (\"c\")");
        assert_eq!(code(json!({"status": "Failure"})).unwrap_err().status(), Some(500));
    }

    #[test]
    fn the_beginning_of_too_much_output_is_kept() {
        let mut output = Output::default();
        output.take(STDOUT, b"abc", 5).unwrap();
        output.take(CLOSE, &[STDOUT], 5).unwrap();
        assert!(matches!(output.take(STDERR, b"defg", 5), Err(Problem::TooMuchOutput(5))));
        assert_eq!(output, Output { stdout: b"abc".to_vec(), stderr: b"de".to_vec() });
    }
}
