//! `kopfd init`: creates a small example operator.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;

use super::exit_code::{FAILURE, SUCCESS};
use super::output::{enumerated, print_error};

/// The created files.
const FILES: [(&str, &str); 5] = [
    ("operator.yaml", include_str!("init/operator.yaml")),
    ("greeter.rhai", include_str!("init/greeter.rhai")),
    ("crd.yaml", include_str!("init/crd.yaml")),
    ("greeting.yaml", include_str!("init/greeting.yaml")),
    ("scenarios/greeting.yaml", include_str!("init/scenarios/greeting.yaml")),
];

/// Options of the command.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// The directory, which is created if it does not exist. Existing files are not overwritten.
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

/// Runs the command.
pub(super) fn run(options: &Options) -> u8 {
    let directory = &options.directory;
    let existing: Vec<String> =
        FILES.iter().map(|(name, _)| directory.join(name)).filter(|path| path.exists()).map(display).collect();
    if !existing.is_empty() {
        print_error(&format!("existing files are not overwritten: {}", enumerated(&existing)));
        return FAILURE;
    }
    for (name, text) in FILES {
        let path = directory.join(name);
        if let Err(error) = write(&path, text) {
            print_error(&format!("cannot write {}: {error}", path.display()));
            return FAILURE;
        }
    }
    print_next_steps(directory);
    SUCCESS
}

fn display(path: PathBuf) -> String {
    path.display().to_string()
}

/// Creates a file. Fails if it exists, even if another process has just created it.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}

fn print_next_steps(directory: &Path) {
    let mut lines: Vec<String> =
        FILES.iter().map(|(name, _)| format!("created {}", directory.join(name).display())).collect();
    lines.push("\nTry it:\n".to_owned());
    if directory != Path::new(".") {
        lines.push(format!("    cd {}", directory.display()));
    }
    lines
        .push("    kopfd dev operator.yaml --apply greeting.yaml     # run the operator, without a cluster".to_owned());
    lines.push(
        "    kopfd test                                        # run its scenario tests, in virtual time".to_owned(),
    );
    lines.push("    kopfd check                                       # report all errors at once".to_owned());
    let mut stdout = anstream::stdout().lock();
    // A closed standard output is not an error.
    drop(writeln!(stdout, "{}", lines.join("\n")));
}
