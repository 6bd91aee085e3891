//! The plain library: functions of lists, maps, texts, versions, addresses and other formats. They depend on nothing
//! but their arguments, so that expressions may call them, too.

mod addresses;
mod cleaning;
mod comparing;
mod dates;
mod lists;
mod maps;
mod numbers;
mod paths;
mod sizes;
mod texts;
mod toml_text;
mod urls;
mod versions;

use rhai::Engine;

pub(super) use paths::nodes;
pub(super) use urls::RESERVED;

/// Registers the functions.
pub(super) fn register(engine: &mut Engine) {
    for register in [
        addresses::register,
        cleaning::register,
        dates::register,
        lists::register,
        maps::register,
        numbers::register,
        paths::register,
        texts::register,
        toml_text::register,
        urls::register,
        versions::register,
    ] {
        register(engine);
    }
}
