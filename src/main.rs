//! The command `kopfd`.

use std::process::ExitCode;

/// Many small allocations on many threads are the life of an operator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    install_crypto();
    kopfd::cli::main()
}

/// Everything that speaks TLS takes the provider that is installed first.
fn install_crypto() {
    #[cfg(feature = "aws-lc")]
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    #[cfg(all(feature = "ring", not(feature = "aws-lc")))]
    let provider = rustls::crypto::ring::default_provider();
    #[cfg(any(feature = "aws-lc", feature = "ring"))]
    provider.install_default().expect("nothing else installs a provider");
}
