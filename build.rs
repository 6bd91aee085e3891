//! Links the release binary for a small size in memory and on the disk.
//!
//! The functions that an operator executes lie next to each other, so that it touches fewer pages: without the order,
//! the resident memory of an idle operator is eight megabytes larger. Relocations are packed, which saves further 1.4
//! megabytes of the file and of the memory.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// The list of functions that operators execute, in the order of the binary; `release/order-functions` writes it.
const FUNCTIONS: &str = "release/functions.txt";

/// The only target whose default linker is LLD. Other linkers do not know the options.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The first version of glibc whose loader reads packed relocations.
const PACKED_SINCE: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed={FUNCTIONS}");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let is_release = variable("PROFILE") == "release" && variable("TARGET") == TARGET;
    let flags = variable("CARGO_ENCODED_RUSTFLAGS");
    let has_link_options =
        flags.split('\x1f').any(|flag| flag.trim_start_matches("-C").trim_start().starts_with("link"));
    let is_default_linker = env::var_os("RUSTC_LINKER").is_none() && !has_link_options;
    if is_release && is_default_linker && has_lld() {
        let functions = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join(FUNCTIONS);
        println!("cargo::rustc-link-arg-bin=kopfd=-Wl,--symbol-ordering-file={}", functions.display());
        // Names that do not exist are ignored.
        println!("cargo::rustc-link-arg-bin=kopfd=-Wl,--no-warn-symbol-ordering");
        if variable("HOST") == TARGET && glibc().is_some_and(|version| version >= PACKED_SINCE) {
            println!("cargo::rustc-link-arg-bin=kopfd=-Wl,-z,pack-relative-relocs");
        }
    }
}

/// Tells whether the compiler brings its own LLD, which it then uses.
fn has_lld() -> bool {
    let output = Command::new(env::var_os("RUSTC").unwrap_or_default()).args(["--print", "sysroot"]).output();
    let sysroot = output.ok().and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    PathBuf::from(sysroot.trim()).join("lib/rustlib").join(TARGET).join("bin/gcc-ld/ld.lld").exists()
}

/// Returns the version of this machine's glibc: the binary needs it or a later one in any case, since it is linked with
/// it.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
