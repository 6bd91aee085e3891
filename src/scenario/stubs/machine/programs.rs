//! Answers to runs of programs.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::MachineStubs;
use crate::scenario::stubs::declared::ProgramStub;
use crate::script::outside::files::FilePath;
use crate::script::outside::programs::{Finished, ProgramError, ProgramFailure, ProgramRequest, Programs, refusal};

/// Tells whether a stub answers a call.
fn fits(stub: &ProgramStub, request: &ProgramRequest) -> bool {
    let arguments: Vec<Option<&str>> = request.arguments.iter().map(|argument| Some(argument.as_str())).collect();
    stub.program == request.name && stub.args.as_ref().is_none_or(|args| refusal(args, &arguments).is_none())
}

/// Returns the result of a call within its limits.
fn result(stub: &ProgramStub, request: &ProgramRequest) -> Result<Finished, ProgramError> {
    if stub.takes >= request.time {
        let message =
            format!("{} has not ended within {} seconds, and is killed", request.name, request.time.as_secs_f64());
        return Err(ProgramError::new(ProgramFailure::Timeout, message));
    }
    if let Some(text) = &stub.fails {
        return Err(ProgramError::new(ProgramFailure::Failed, text.clone()));
    }
    let is_wanted = |name: &str| {
        let path = FilePath::parse(&format!("/{name}"));
        path.is_ok_and(|path| request.outputs.iter().any(|pattern| pattern.matches(&path)))
    };
    let mut finished = stub.finished.clone();
    finished.files.retain(|name, _| is_wanted(name));
    let files: BTreeMap<_, usize> = finished.files.iter().map(|(name, contents)| (name, contents.len())).collect();
    if finished.stdout.len() + finished.stderr.len() + files.values().sum::<usize>() > request.output {
        let message = format!("{} has written more than {} bytes, and is killed", request.name, request.output);
        return Err(ProgramError::new(ProgramFailure::TooMuchOutput, message));
    }
    Ok(finished)
}

impl Programs for MachineStubs {
    fn run(&self, request: ProgramRequest) -> BoxFuture<'_, Result<Finished, ProgramError>> {
        async move {
            let shown = shown(&request);
            let Some(stub) = self.programs.take(|stub| fits(stub, &request)) else {
                let hint = format!("add one, such as `given: {{exec: [{{program: {}, code: 0}}]}}`", request.name);
                return Err(ProgramError::new(
                    ProgramFailure::NoStub,
                    self.fail(&format!("the program {shown}"), hint),
                ));
            };
            tokio::time::sleep(stub.takes.min(request.time)).await;
            let result = result(stub, &request);
            let how = match &result {
                Ok(finished) => format!("code {}", finished.code),
                Err(error) => error.message.clone(),
            };
            self.record(format!("the program {shown} is run: {how}"));
            result
        }
        .boxed()
    }
}

fn shown(request: &ProgramRequest) -> String {
    let words = std::iter::once(&request.name).chain(&request.arguments);
    words
        .map(|word| if word.contains([' ', '\n']) { format!("{word:?}") } else { word.clone() })
        .collect::<Vec<_>>()
        .join(" ")
}
