//! `kopfd init`: a small operator to begin with.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;

use super::{DONE, FAILED, complain, enumerated};

/// The files, by their names in the directory.
const FILES: [(&str, &str); 5] = [
    ("operator.yaml", include_str!("init/operator.yaml")),
    ("greeter.rhai", include_str!("init/greeter.rhai")),
    ("crd.yaml", include_str!("init/crd.yaml")),
    ("greeting.yaml", include_str!("init/greeting.yaml")),
    ("scenarios/greeting.yaml", include_str!("init/scenarios/greeting.yaml")),
];

/// Makes a small operator.
#[derive(Debug, Args)]
pub struct Options {
    /// Where to; the directory is made if it is not there. No file is overwritten.
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

/// Runs the command.
pub fn run(options: &Options) -> u8 {
    let directory = &options.directory;
    let taken: Vec<String> = FILES.iter().map(|(name, _)| directory.join(name)).filter(|path| path.exists()).map(shown).collect();
    if !taken.is_empty() {
        complain(&format!("nothing is overwritten, and there is already {}", enumerated(&taken)));
        return FAILED;
    }
    for (name, text) in FILES {
        let path = directory.join(name);
        if let Err(error) = write(&path, text) {
            complain(&format!("cannot write {}: {error}", path.display()));
            return FAILED;
        }
    }
    tell(directory);
    DONE
}

fn shown(path: PathBuf) -> String {
    path.display().to_string()
}

/// Writes a file that is not there yet, be it that somebody else is just making it.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}

fn tell(directory: &Path) {
    let mut lines: Vec<String> = FILES.iter().map(|(name, _)| format!("made {}", directory.join(name).display())).collect();
    lines.push("\nTry it:\n".to_owned());
    if directory != Path::new(".") {
        lines.push(format!("    cd {}", directory.display()));
    }
    lines.push("    kopfd dev operator.yaml --apply greeting.yaml     # the operator at work, without a cluster".to_owned());
    lines.push("    kopfd test                                        # its scenarios, in virtual time".to_owned());
    lines.push("    kopfd check                                       # all mistakes at once".to_owned());
    let mut stdout = anstream::stdout().lock();
    // Who does not read along does not need it.
    drop(writeln!(stdout, "{}", lines.join("\n")));
}
