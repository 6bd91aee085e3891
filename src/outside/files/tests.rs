use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;

/// Makes a directory as a mounted ConfigMap is one, beside another directory with a secret.
fn mounted() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    for directory in ["app/..2026_01/sub", "app/real", "app/.hidden", "secret"] {
        std::fs::create_dir_all(at(directory)).unwrap();
    }
    for file in [
        "app/..2026_01/config.yaml",
        "app/..2026_01/sub/x.yaml",
        "app/real/y.yaml",
        "app/.hidden/z.yaml",
        "secret/key.yaml",
    ] {
        std::fs::write(at(file), format!("text of {file}")).unwrap();
    }
    symlink("..2026_01", at("app/..data")).unwrap();
    symlink("..data/config.yaml", at("app/config.yaml")).unwrap();
    symlink("..data/sub", at("app/sub")).unwrap();
    symlink("../secret/key.yaml", at("app/out.yaml")).unwrap();
    symlink(at("secret/key.yaml"), at("app/absolute.yaml")).unwrap();
    symlink("../secret", at("app/away")).unwrap();
    symlink("nowhere", at("app/dangling.yaml")).unwrap();
    folder
}

fn at(folder: &Path, path: &str) -> String {
    format!("{}/{path}", folder.canonicalize().unwrap().display())
}

fn read_in(folder: &Path, pattern: &str, path: &str) -> Result<String, FileFailure> {
    let pattern = FilePattern::parse(&at(folder, pattern)).unwrap();
    let bytes = read(&Confined::new(&pattern), &FilePath::parse(&at(folder, path)).unwrap(), 1_000);
    bytes.map(|bytes| String::from_utf8(bytes).unwrap()).map_err(|error| error.reason)
}

fn list_in(folder: &Path, pattern: &str) -> Vec<String> {
    let pattern = FilePattern::parse(&at(folder, pattern)).unwrap();
    let found = list(&Confined::new(&pattern), 100).unwrap();
    let prefix = at(folder, "");
    let mut names: Vec<String> =
        found.iter().map(|path| path.to_string().trim_start_matches(&prefix).to_owned()).collect();
    names.sort();
    names
}

#[test]
fn the_links_of_a_mounted_config_map_are_followed() {
    let folder = mounted();
    assert_eq!(read_in(folder.path(), "app/*.yaml", "app/config.yaml").unwrap(), "text of app/..2026_01/config.yaml");
    assert_eq!(read_in(folder.path(), "app/sub/*", "app/sub/x.yaml").unwrap(), "text of app/..2026_01/sub/x.yaml");
    assert_eq!(read_in(folder.path(), "app/**/*", "app/sub/x.yaml").unwrap(), "text of app/..2026_01/sub/x.yaml");
    assert_eq!(
        read_in(folder.path(), "app/config.yaml", "app/config.yaml").unwrap(),
        "text of app/..2026_01/config.yaml"
    );
}

#[test]
fn links_out_of_the_directory_are_refused() {
    let folder = mounted();
    for (pattern, path) in [
        ("app/*.yaml", "app/out.yaml"),
        ("app/*.yaml", "app/absolute.yaml"),
        ("app/out.yaml", "app/out.yaml"),
        ("app/**/*", "app/away/key.yaml"),
        // The directory of the pattern is `app/away` itself, and matches a `*`.
        ("app/*/key.yaml", "app/away/key.yaml"),
        ("app/*/x.yaml", "app/sub/x.yaml"),
    ] {
        assert_eq!(read_in(folder.path(), pattern, path), Err(FileFailure::Forbidden), "{pattern} {path}");
    }
    // The manifest names this directory, whatever it is.
    assert_eq!(read_in(folder.path(), "app/away/*", "app/away/key.yaml").unwrap(), "text of secret/key.yaml");
    assert_eq!(read_in(folder.path(), "app/*.yaml", "app/real/y.yaml"), Err(FileFailure::Forbidden));
}

#[test]
fn only_regular_files_are_read_and_nothing_blocks() {
    let folder = mounted();
    assert_eq!(read_in(folder.path(), "app/*", "app/real"), Err(FileFailure::NotAFile));
    assert_eq!(read_in(folder.path(), "app/*", "app/missing"), Err(FileFailure::NotFound));
    assert_eq!(read_in(folder.path(), "app/*", "app/dangling.yaml"), Err(FileFailure::NotFound));
    // The pipe has no writer: opening it for reading would wait.
    let made = std::process::Command::new("mkfifo").arg(folder.path().join("app/pipe")).status().unwrap();
    assert!(made.success());
    assert_eq!(read_in(folder.path(), "app/*", "app/pipe"), Err(FileFailure::NotAFile));
    let pattern = FilePattern::parse("/dev/*").unwrap();
    let device = read(&Confined::new(&pattern), &FilePath::parse("/dev/zero").unwrap(), 1_000);
    assert_eq!(device.unwrap_err().message, "/dev/zero is no file but a device");
}

#[test]
fn large_files_are_refused() {
    let folder = mounted();
    std::fs::write(folder.path().join("app/large"), vec![b'x'; 1_001]).unwrap();
    assert_eq!(read_in(folder.path(), "app/*", "app/large"), Err(FileFailure::TooLarge));
    // A file that has more than its size says.
    let pattern = FilePattern::parse("/proc/meminfo").unwrap();
    let error = read(&Confined::new(&pattern), &FilePath::parse("/proc/meminfo").unwrap(), 3).unwrap_err();
    assert_eq!(error.message, "/proc/meminfo has more than 3 bytes");
}

#[test]
fn lists_have_what_can_be_read() {
    let folder = mounted();
    assert_eq!(list_in(folder.path(), "app/*.yaml"), ["app/config.yaml"]);
    assert_eq!(list_in(folder.path(), "app/**/*"), ["app/config.yaml", "app/real/y.yaml", "app/sub/x.yaml"]);
    assert_eq!(list_in(folder.path(), "app/*/*.yaml"), ["app/real/y.yaml"]);
    assert_eq!(list_in(folder.path(), "app/.hidden/*"), ["app/.hidden/z.yaml"]);
    assert_eq!(list_in(folder.path(), "nowhere/*"), [""; 0]);
    let pattern = FilePattern::parse(&at(folder.path(), "app/**/*")).unwrap();
    let error = list(&Confined::new(&pattern), 2).unwrap_err();
    assert_eq!(error.reason, FileFailure::TooLarge);
}

#[tokio::test]
async fn lists_have_only_what_is_allowed_and_wanted() {
    let folder = mounted();
    let pattern = |text: &str| FilePattern::parse(&at(folder.path(), text)).unwrap();
    let allowed = vec![pattern("app/*.yaml"), pattern("app/config.yaml"), pattern("app/real/*")];
    let found = LocalFiles::default().list(allowed.clone(), pattern("app/**/*")).await.unwrap();
    assert_eq!(found, [at(folder.path(), "app/config.yaml"), at(folder.path(), "app/real/y.yaml")]);
    assert_eq!(LocalFiles::default().list(allowed, pattern("secret/*")).await.unwrap(), [""; 0]);
}
