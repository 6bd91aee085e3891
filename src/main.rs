//! The command `kopfd`.

use std::process::ExitCode;

/// Many small allocations on many threads are the life of an operator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kopfd::http::install_crypto_provider();
    kopfd::cli::main()
}
