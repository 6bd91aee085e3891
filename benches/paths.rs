//! The most used code paths: from a watch event to a handler, the call of a script, the look-up in an index, the start,
//! and a reload.
//!
//! `cargo bench --bench paths`; it needs no cluster. With `calls` or another part of a title after `--`, only that is
//! measured.

#![expect(clippy::print_stdout, reason = "this is a command of its own that prints its figures")]

#[path = "paths/calls.rs"]
mod calls;
#[path = "paths/indexes.rs"]
mod indexes;
#[path = "paths/reload.rs"]
mod reload;
#[path = "paths/start.rs"]
mod start;
mod support;
#[path = "paths/watching.rs"]
mod watching;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kopfd::manifest::{self, Operator};
use support::table::{print, row};

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: kopfd::cli::Heap = kopfd::cli::Heap;

/// Measures one path, and returns the rows of its table.
type Measure = fn() -> Vec<Vec<String>>;

fn main() -> ExitCode {
    // For the generated stream over a connection: the server is another process of this program.
    if std::env::args().nth(1).as_deref() == Some(watching::SERVE) {
        watching::serve();
        return ExitCode::SUCCESS;
    }
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let parts: [(&str, Measure); 5] = [
        ("watching", watching::measure),
        ("calls", calls::measure),
        ("indexes", indexes::measure),
        ("start", start::measure),
        ("reload", reload::measure),
    ];
    let mut rows = vec![row(["path", "figure", "goal", ""])];
    rows.extend(parts.into_iter().filter(|(title, _)| title.contains(&filter)).flat_map(|(_, measure)| measure()));
    print(&rows);
    ExitCode::SUCCESS
}

/// Writes files into a directory, and returns the first one.
fn write(directory: &Path, files: &[(&str, &str)]) -> PathBuf {
    for (name, text) in files {
        std::fs::write(directory.join(name), text).expect("files can be written");
    }
    directory.join(files[0].0)
}

/// Loads the operator of a valid manifest.
fn load(manifest: PathBuf) -> Operator {
    let mut loaded = manifest::load(&[manifest]);
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    loaded.operators.pop().expect("there is an operator in the manifest")
}
