//! The environment variables of options: an empty one counts as not set, and flags take the usual words for yes and no,
//! as in kopf.

use std::any::TypeId;
use std::ffi::OsStr;

use clap::builder::{BoolishValueParser, Resettable, TypedValueParser as _};
use clap::{Arg, ArgAction, Command};

/// Returns a command whose options, and those of its subcommands, do not read variables without a meaning.
pub(super) fn adapted(command: Command) -> Command {
    command.mut_args(argument).mut_subcommands(adapted)
}

fn argument(argument: Arg) -> Arg {
    let Some(value) = argument.get_env().map(|name| std::env::var_os(name).unwrap_or_default()) else {
        return argument;
    };
    let is_flag = matches!(argument.get_action(), ArgAction::SetTrue);
    let is_bool = is_flag || argument.get_value_parser().type_id() == TypeId::of::<bool>();
    let argument = if is_bool { argument.value_parser(BoolishValueParser::new()) } else { argument };
    // A flag that is off is absent: it must not be in conflict with other options.
    if value.is_empty() || (is_flag && is_no(&value)) { argument.env(Resettable::Reset) } else { argument }
}

fn is_no(value: &OsStr) -> bool {
    matches!(BoolishValueParser::new().parse_ref(&Command::default(), None, value), Ok(false))
}
