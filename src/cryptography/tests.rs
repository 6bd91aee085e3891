//! Published test vectors, and the programs that people use: OpenSSL, OpenSSH, and Java's keytool if there is one.

mod certificates;
mod keys;
mod tokens;
mod vectors;

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Files for a program.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file that only its owner may read, as `ssh-keygen` demands it.
    fn write(&self, name: &str, content: &[u8]) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(self.path(name), content).unwrap();
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// Runs a program here, and returns its output; an error if it fails.
    fn try_run(&self, command: &str) -> Result<String, String> {
        let mut words = command.split_whitespace();
        let output = Command::new(words.next().unwrap())
            .args(words)
            .current_dir(self.0.path())
            .env("LC_ALL", "C")
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(printed) } else { Err(format!("{command}: {printed}")) }
    }

    /// Runs a program here, which must succeed.
    fn run(&self, command: &str) -> String {
        self.try_run(command).unwrap()
    }
}

fn is_installed(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|directory: PathBuf| Path::is_file(&directory.join(program)))
    })
}

fn bytes(digits: &str) -> Vec<u8> {
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}
