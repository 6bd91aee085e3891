//! Opens files without races: a path is opened without reading, the kernel is asked for the type and the path of the
//! opened file, and only that is read.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::error::failed;
use crate::script::outside::files::{FileError, FileFailure, FilePath, FilePattern, Part};

/// The files of a pattern. Links may lead anywhere in the directory that confines them: the last one that the pattern
/// names without `**`. The author of the manifest has written the directories before the first `*`, so that these may
/// be links to anywhere; directories that match a `*` may not be links.
pub(crate) struct Confined<'a> {
    pattern: &'a FilePattern,
    /// The number of the parts before the first `*`.
    literal: usize,
    /// The number of the parts of the confining directory.
    confining: usize,
}

/// The target of a path. It is not open for reading, so that neither a pipe nor a device notices.
pub(super) struct Opened {
    fd: OwnedFd,
    /// The path without links.
    real: PathBuf,
    kind: FileType,
}

impl<'a> Confined<'a> {
    /// Returns the files of a pattern of the manifest.
    pub(super) fn new(pattern: &'a FilePattern) -> Self {
        let parts = pattern.parts();
        let last = parts.len().saturating_sub(1);
        let confining = parts.iter().position(|part| *part == Part::Deep).unwrap_or(last).min(last);
        let literal = parts[..confining].iter().position(|part| !matches!(part, Part::Name(_))).unwrap_or(confining);
        Self { pattern, literal, confining }
    }

    /// Returns the files of a pattern below a directory, which has this many parts: no link leads out of it, whatever
    /// the pattern is.
    pub(crate) fn below(pattern: &'a FilePattern, parts: usize) -> Self {
        Self { pattern, literal: parts, confining: parts }
    }

    /// Returns the pattern.
    pub(super) fn pattern(&self) -> &FilePattern {
        self.pattern
    }

    /// Opens a regular file.
    ///
    /// # Errors
    /// If there is none, or a link leads out of the confining directory.
    pub(super) fn file(&self, path: &FilePath) -> Result<Opened, FileError> {
        if !self.pattern.matches(path) {
            return Err(FileError::new(FileFailure::Forbidden, format!("{path} does not match {}", self.pattern)));
        }
        let opened = self.open(path.parts())?;
        if opened.kind == FileType::RegularFile {
            return Ok(opened);
        }
        Err(FileError::new(FileFailure::NotAFile, format!("{path} is no file but {}", noun(opened.kind))))
    }

    /// Opens a directory that contains files of the pattern, or directories with such files; `None` if it is no
    /// directory, or a link leads out.
    pub(super) fn directory(&self, parts: &[String]) -> Option<Opened> {
        self.open(parts).ok().filter(|opened| opened.kind == FileType::Directory)
    }

    fn open(&self, parts: &[String]) -> Result<Opened, FileError> {
        let path = path_of(parts);
        let refused = |error: &io::Error| failed(&path.display(), error);
        let literal = parts.len().min(self.literal);
        let base = Opened::at(rustix::fs::CWD, &path_of(&parts[..literal])).map_err(|error| refused(&error))?;
        if literal == parts.len() {
            return Ok(base);
        }
        // Relative to the open directory, so that no directory is exchanged meanwhile.
        let opened = Opened::at(base.fd.as_fd(), &relative(&parts[literal..])).map_err(|error| refused(&error))?;
        let confining = parts.len().min(self.confining);
        let real = base.real.join(relative(&parts[literal..confining]));
        let is_inside = if confining == parts.len() { opened.real == real } else { opened.real.starts_with(&real) };
        if is_inside {
            return Ok(opened);
        }
        let message = format!("{} is a link out of {}", path.display(), path_of(&parts[..confining]).display());
        Err(FileError::new(FileFailure::Forbidden, message))
    }
}

impl Opened {
    #[cfg(target_os = "linux")]
    fn at(directory: BorrowedFd<'_>, path: &Path) -> io::Result<Self> {
        use rustix::fs::{Mode, OFlags, fstat, openat};
        let fd = openat(directory, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let real = std::fs::read_link(link_of(&fd))?;
        let kind = FileType::from_raw_mode(fstat(&fd)?.st_mode);
        Ok(Self { fd, real, kind })
    }

    /// Other systems have no such way to open a file.
    #[cfg(not(target_os = "linux"))]
    fn at(_: BorrowedFd<'_>, _: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Opens the same file for reading, even if its path leads to another one by now.
    pub(super) fn reopened(&self) -> io::Result<File> {
        File::open(link_of(&self.fd))
    }

    /// Returns the names in a directory.
    pub(super) fn names(&self) -> io::Result<impl Iterator<Item = String> + use<>> {
        let entries = std::fs::read_dir(link_of(&self.fd))?;
        Ok(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()))
    }
}

/// Returns the link by which the kernel names an open file.
fn link_of(fd: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()))
}

fn path_of(parts: &[String]) -> PathBuf {
    Path::new("/").join(relative(parts))
}

fn relative(parts: &[String]) -> PathBuf {
    parts.iter().collect()
}

fn noun(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a directory",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "something else",
    }
}
