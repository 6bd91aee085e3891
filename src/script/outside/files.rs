//! Files: the patterns of `allow.files`, and the interface that reads them.

use futures::future::BoxFuture;

use super::glob;

/// The limit of the bytes of one file.
pub const MAX_FILE: usize = 16 << 20;

/// The limit of the files in one list.
pub const MAX_FILES: usize = 10_000;

/// Reads files. The caller has checked that the manifest allows them.
pub trait Files: Send + Sync {
    /// Reads a file. A link is followed as long as it stays within the directory of the pattern that allows the file.
    fn read(&self, allowed: FilePattern, path: FilePath, limit: usize) -> BoxFuture<'_, Result<Vec<u8>, FileError>>;
    /// Returns the paths of the readable files that match one of the allowed patterns and the wanted one, in
    /// alphabetical order.
    fn list(&self, allowed: Vec<FilePattern>, wanted: FilePattern) -> BoxFuture<'_, Result<Vec<String>, FileError>>;
}

/// The reason why a file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FileError {
    /// The cause.
    pub reason: FileFailure,
    /// The text.
    pub message: String,
}

impl FileError {
    /// Returns the error of a file.
    pub fn new(reason: FileFailure, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// The causes of failures, as scripts see them in the property `reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFailure {
    /// There is no such file.
    NotFound,
    /// It is a directory, a pipe, a device, or a socket.
    NotAFile,
    /// A link leads out of the allowed directory, or the system denies the access.
    Forbidden,
    /// It is larger than it may be, or there are too many files.
    TooLarge,
    /// The system cannot read it.
    Unreadable,
    /// No stub of the scenario answers.
    NoStub,
}

impl FileFailure {
    /// Returns the name that scripts see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "NotFound",
            Self::NotAFile => "NotAFile",
            Self::Forbidden => "Forbidden",
            Self::TooLarge => "TooLarge",
            Self::Unreadable => "Unreadable",
            Self::NoStub => "NoStub",
        }
    }
}

/// An absolute path without `.` and `..`, as its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePath(Vec<String>);

impl FilePath {
    /// Reads a path.
    ///
    /// # Errors
    /// The reason why it is invalid.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let rest = text.strip_prefix('/').ok_or("the path must be absolute")?;
        parts_of(rest).map(Self)
    }

    /// Returns the parts.
    pub fn parts(&self) -> &[String] {
        &self.0
    }
}

impl std::fmt::Display for FilePath {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|part| write!(formatter, "/{part}"))
    }
}

/// A pattern of files: in a part of the path, `*` stands for any text but `/`, though not for the dot at the beginning
/// of a hidden name. A part `**` stands for any number of directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePattern(Vec<Part>);

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// A name.
    Name(String),
    /// A name with `*` in it.
    Glob(String),
    /// `**`: any number of directories.
    Deep,
}

impl Part {
    fn of(text: String) -> Self {
        match text.as_str() {
            "**" => Self::Deep,
            glob if glob.contains('*') => Self::Glob(text),
            _ => Self::Name(text),
        }
    }

    /// Tells whether a name matches. For `**`, tells whether the name is that of a directory that it may stand for.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Name(wanted) => wanted == name,
            Self::Glob(pattern) => (!name.starts_with('.') || pattern.starts_with('.')) && glob::matches(pattern, name),
            Self::Deep => !name.starts_with('.'),
        }
    }
}

impl FilePattern {
    /// Reads a pattern of absolute paths.
    ///
    /// # Errors
    /// The reason why it is invalid.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let rest = text.strip_prefix('/').ok_or("the path must be absolute")?;
        Self::relative(rest)
    }

    /// Reads a pattern of relative paths.
    ///
    /// # Errors
    /// The reason why it is invalid.
    pub fn relative(text: &str) -> Result<Self, &'static str> {
        let parts = parts_of(text)?;
        if parts.iter().any(|part| part.contains("**") && part != "**") {
            return Err("`**` must stand alone between two `/`");
        }
        if parts.last().is_some_and(|last| last == "**") {
            return Err("after `**` a pattern of files must follow, such as `**/*`");
        }
        Ok(Self(parts.into_iter().map(Part::of).collect()))
    }

    /// Returns the pattern below a directory.
    #[must_use]
    pub fn below(&self, directory: &FilePath) -> Self {
        Self(directory.0.iter().cloned().map(Part::Name).chain(self.0.iter().cloned()).collect())
    }

    /// Returns the pattern of all files in the directories that match the pattern.
    #[must_use]
    pub fn contents(&self) -> Self {
        Self(self.0.iter().cloned().chain([Part::Glob("*".to_owned())]).collect())
    }

    /// Returns the parts.
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// Tells whether it has no `*`.
    pub fn is_exact(&self) -> bool {
        self.0.iter().all(|part| matches!(part, Part::Name(_)))
    }

    /// Tells whether a path matches.
    pub fn matches(&self, path: &FilePath) -> bool {
        matches(&self.0, &path.0)
    }

    /// Tells whether a file might match both patterns.
    pub fn may_overlap(&self, other: &Self) -> bool {
        may_overlap(&self.0, &other.0)
    }
}

impl std::fmt::Display for FilePattern {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            Part::Name(text) | Part::Glob(text) => write!(formatter, "/{text}"),
            Part::Deep => formatter.write_str("/**"),
        })
    }
}

fn parts_of(text: &str) -> Result<Vec<String>, &'static str> {
    let parts: Vec<String> = text.split('/').map(str::to_owned).collect();
    match parts.iter().map(String::as_str).find(|part| matches!(*part, "" | "." | "..") || part.contains('\0')) {
        Some("") => Err("the path must name a file, without empty parts"),
        Some("." | "..") => Err("the path must have no `.` and no `..`"),
        Some(_) => Err("the path must have no zero character"),
        None => Ok(parts),
    }
}

fn matches(pattern: &[Part], path: &[String]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((Part::Deep, rest)), Some((name, names))) => {
            matches(rest, path) || (Part::Deep.matches(name) && matches(pattern, names))
        }
        (Some((part, rest)), Some((name, names))) => part.matches(name) && matches(rest, names),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn may_overlap(one: &[Part], other: &[Part]) -> bool {
    match (one.split_first(), other.split_first()) {
        (Some((Part::Deep, rest)), None) | (None, Some((Part::Deep, rest))) => may_overlap(rest, &[]),
        (None, None) | (Some((Part::Deep, _)), Some(_)) | (Some(_), Some((Part::Deep, _))) => true,
        (Some((a, ones)), Some((b, others))) => {
            let is_common = match (a, b) {
                (Part::Name(name), part) | (part, Part::Name(name)) => part.matches(name),
                (Part::Glob(a), Part::Glob(b)) => glob::may_overlap(a, b),
                (Part::Deep, _) | (_, Part::Deep) => true,
            };
            is_common && may_overlap(ones, others)
        }
        (Some(_), None) | (None, Some(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(pattern: &str, path: &str) -> bool {
        FilePattern::parse(pattern).unwrap().matches(&FilePath::parse(path).unwrap())
    }

    #[test]
    fn a_star_stays_within_its_directory() {
        assert!(is_match("/etc/app/*.yaml", "/etc/app/a.yaml"));
        assert!(is_match("/etc/*/config", "/etc/app/config"));
        assert!(!is_match("/etc/app/*.yaml", "/etc/app/b/a.yaml"));
        assert!(!is_match("/etc/app/*.yaml", "/etc/app/a.yml"));
        assert!(!is_match("/etc/app/*", "/etc/app"));
        assert!(is_match("/a*/b*", "/a1/b2"));
    }

    #[test]
    fn two_stars_stand_for_directories() {
        assert!(is_match("/etc/app/**/*", "/etc/app/x"));
        assert!(is_match("/etc/app/**/*.pem", "/etc/app/a/b/x.pem"));
        assert!(!is_match("/etc/app/**/*.pem", "/etc/x.pem"));
        assert!(is_match("/**/a/*", "/b/a/a/c"));
    }

    #[test]
    fn hidden_names_are_matched_by_patterns_with_a_dot() {
        assert!(!is_match("/etc/app/*", "/etc/app/.hidden"));
        assert!(is_match("/etc/app/.*", "/etc/app/.hidden"));
        // The directories of mounted ConfigMaps.
        assert!(!is_match("/etc/app/**/*", "/etc/app/..data/x"));
        assert!(!is_match("/etc/app/*/x", "/etc/app/..2026_01/x"));
    }

    #[test]
    fn patterns_and_paths_are_absolute_and_plain() {
        for text in ["etc/app", "", "/", "/etc//app", "/etc/app/", "/etc/../root", "/etc/./app", "/etc/a\0"] {
            assert!(FilePath::parse(text).is_err(), "{text:?}");
            assert!(FilePattern::parse(text).is_err(), "{text:?}");
        }
        for text in ["/etc/**", "/etc/a**/b"] {
            assert!(FilePattern::parse(text).is_err(), "{text:?}");
        }
        assert_eq!(FilePattern::parse("/etc/**/*.yaml").unwrap().to_string(), "/etc/**/*.yaml");
    }

    #[test]
    fn patterns_that_cannot_have_a_common_file_are_told_apart() {
        let overlap =
            |one: &str, other: &str| FilePattern::parse(one).unwrap().may_overlap(&FilePattern::parse(other).unwrap());
        assert!(overlap("/etc/app/*.yaml", "/etc/app/a*"));
        assert!(overlap("/etc/**/x", "/etc/a/b/c/x"));
        assert!(!overlap("/etc/app/*.yaml", "/root/*"));
        assert!(!overlap("/etc/app/*.yaml", "/etc/app/a.json"));
        assert!(!overlap("/etc/app/*", "/etc/app/a/b"));
        assert!(!overlap("/etc/app/**/*", "/etc/*"));
        assert!(overlap("/etc/app/**/*", "/etc/app/*"));
    }
}
