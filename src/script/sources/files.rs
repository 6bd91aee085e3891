//! Files of an operator, read only from below the folder of its scripts.

use std::io::ErrorKind;
use std::path::Path;

/// The largest accepted script or template.
const MAX_BYTES: u64 = 4 << 20;

/// The reason why a file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreadable {
    /// The problem.
    pub message: String,
    /// A hint on the fix.
    pub hint: Option<String>,
}

impl Unreadable {
    /// Returns an error without a hint.
    pub(crate) fn new(message: String) -> Self {
        Self { message, hint: None }
    }

    /// Adds a hint.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// Returns the text of a file, by its path below the root. `title` names the kind of file in messages, such as
/// `script`.
///
/// # Errors
/// If the file does not exist, is not text, is too large, or is outside of the root, also by a link.
pub(crate) fn read(root: &Path, title: &str, name: &str) -> Result<String, Unreadable> {
    let failed = |error: &std::io::Error| {
        Unreadable::new(format!("the {title} {name} cannot be read: {error}"))
            .hint("the process of kopfd must be allowed to read it")
    };
    let outside = || Unreadable::new(format!("the {title} {name} lies outside of the scripts"));
    if Path::new(name).is_absolute() || name.split('/').any(|part| part == "..") {
        return Err(outside().hint("paths are relative to the folder of scripts, without `..`"));
    }
    let real = root.join(name).canonicalize().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Unreadable::new(format!("there is no {title} {name}"))
            .hint(format!("{title}s are looked for in {}", root.display())),
        _ => failed(&error),
    })?;
    let real_root = root.canonicalize().map_err(|error| failed(&error))?;
    if !real.starts_with(&real_root) {
        return Err(outside().hint("links must not lead out of the folder of scripts"));
    }
    let about = std::fs::metadata(&real).map_err(|error| failed(&error))?;
    if !about.is_file() {
        return Err(
            Unreadable::new(format!("the {title} {name} is no file")).hint("write the path of a file, with its ending")
        );
    }
    if about.len() > MAX_BYTES {
        let message = format!("the {title} {name} has {} bytes, at most {MAX_BYTES} are read", about.len());
        return Err(Unreadable::new(message).hint("split it into several smaller ones"));
    }
    let bytes = std::fs::read(&real).map_err(|error| failed(&error))?;
    String::from_utf8(bytes)
        .map_err(|_| Unreadable::new(format!("the {title} {name} is not UTF-8 text")).hint("save it as UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_text_within_the_root_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("scripts");
        std::fs::create_dir_all(root.join("lib.rhai")).unwrap();
        std::fs::write(root.join("a.rhai"), "fn a() {}").unwrap();
        std::fs::write(root.join("b.rhai"), [0xff, 0xfe]).unwrap();
        std::fs::write(root.join("big"), vec![b' '; MAX_BYTES as usize + 1]).unwrap();
        std::fs::write(folder.path().join("c.rhai"), "").unwrap();
        std::os::unix::fs::symlink(folder.path().join("c.rhai"), root.join("c.rhai")).unwrap();
        assert_eq!(read(&root, "script", "a.rhai").unwrap(), "fn a() {}");
        let refused = |name| read(&root, "script", name).unwrap_err().message;
        assert_eq!(refused("x.rhai"), "there is no script x.rhai");
        assert_eq!(refused("lib.rhai"), "the script lib.rhai is no file");
        assert_eq!(refused("b.rhai"), "the script b.rhai is not UTF-8 text");
        assert_eq!(refused("big"), format!("the script big has {} bytes, at most {MAX_BYTES} are read", MAX_BYTES + 1));
        for name in ["c.rhai", "../c.rhai", "lib.rhai/../../c.rhai", "/etc/hostname"] {
            assert_eq!(refused(name), format!("the script {name} lies outside of the scripts"));
        }
    }
}
