//! The command `kopfd`.

fn main() {}
