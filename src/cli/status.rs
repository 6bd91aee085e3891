//! `kopfd status`: asks a running `kopfd run` for the state of its operators.

mod text;

use std::io::Write as _;

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::engines::LivenessUrl;
use crate::engines::endpoints::STATUS;
use crate::engines::endpoints::client::{self, ClientError, Received};
use crate::engines::status::{API_VERSION, KIND, ProcessStatus};
use crate::kit::errors::chain;

use super::exit_code::{FAILURE, SUCCESS};
use super::output::print_error;

/// Characters of a foreign answer that are shown.
const MAX_SHOWN: usize = 60;

/// Shows the operators of a running `kopfd run --liveness=URL`: revisions, kinds, handlers and queues.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// The URL that `kopfd run` was started with, or its host and port.
    #[arg(env = "KOPFD_LIVENESS", value_name = "URL", default_value = "http://localhost:8080", value_parser = LivenessUrl::parse)]
    url: LivenessUrl,

    /// The output format.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    /// Tables for people.
    Text,
    /// The JSON document of the endpoint.
    Json,
}

/// Runs the command.
pub(super) fn run(options: &Options) -> u8 {
    let at = LivenessUrl { path: STATUS.to_owned(), ..options.url.clone() };
    match state(&at) {
        Err(problem) => {
            print_error(&problem);
            FAILURE
        }
        Ok((document, status)) => {
            let text = match options.output {
                Output::Text => text::of(&status, &at.to_string()),
                Output::Json => format!("{document:#}\n"),
            };
            let mut stdout = anstream::stdout().lock();
            // A closed standard output, as with `head`, is not an error.
            drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
            SUCCESS
        }
    }
}

/// Returns the document and its contents.
fn state(at: &LivenessUrl) -> Result<(Value, ProcessStatus), String> {
    let received = client::ask(at, &at.path).map_err(|error| refused(at, &error))?;
    understood(&received).ok_or_else(|| foreign(at, &received))
}

fn understood(received: &Received) -> Option<(Value, ProcessStatus)> {
    let document: Value = serde_json::from_slice(&received.body).ok()?;
    let is_ours = received.status == 200 && document["apiVersion"] == API_VERSION && document["kind"] == KIND;
    let status = serde_json::from_value(document.clone()).ok()?;
    is_ours.then_some((document, status))
}

fn refused(at: &LivenessUrl, error: &ClientError) -> String {
    let hint = match error {
        ClientError::Refused => {
            "\nhint: start the operator with `--liveness=http://0.0.0.0:8080/healthz`, and name that URL; it answers once its startup activities have succeeded"
        }
        ClientError::Foreign => "\nhint: name the URL that `kopfd run --liveness=URL` was started with",
        _ => "",
    };
    format!("no answer from {at}: {}{hint}", chain(error))
}

fn foreign(at: &LivenessUrl, received: &Received) -> String {
    let shown: String =
        String::from_utf8_lossy(&received.body).chars().filter(|letter| !letter.is_control()).take(MAX_SHOWN).collect();
    let hint = "\nhint: name the URL that `kopfd run --liveness=URL` was started with, of this version or a later one";
    format!("{at} does not answer as kopfd does: HTTP {} {shown:?}{hint}", received.status)
}
