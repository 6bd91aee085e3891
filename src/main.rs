//! The command `kopfd`.

use std::process::ExitCode;

/// Operators make many small allocations on many threads.
#[global_allocator]
static ALLOCATOR: kopfd::script::Accounting<kopfd::cli::Heap> = kopfd::script::Accounting(kopfd::cli::Heap);

fn main() -> ExitCode {
    kopfd::http::install_crypto_provider();
    kopfd::cli::main()
}
