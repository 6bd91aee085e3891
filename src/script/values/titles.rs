//! The types of values in the words of messages.

use std::collections::BTreeSet;

use rhai::Dynamic;

/// Returns the type of a value, with its article.
pub(crate) fn of_value(value: &Dynamic) -> String {
    of_type(value.type_name())
}

/// Returns a type by the name that the interpreter has for it, with an article.
pub(crate) fn of_type(name: &str) -> String {
    // The signature of a function with several types for a value lists all of them.
    if let Some((first, rest)) = name.split_once(" | ") {
        let titles: BTreeSet<String> = std::iter::once(first).chain(rest.split(" | ")).map(of_type).collect();
        return titles.into_iter().collect::<Vec<_>>().join(" or ");
    }
    // The names of collections contain those of their items.
    let own = name.split('<').next().unwrap_or(name);
    match own.rsplit("::").next().unwrap_or(own) {
        "()" => "`()`",
        "i64" | "u64" | "i32" | "u32" | "usize" => "an integer",
        "f64" | "f32" => "a float",
        "bool" => "a boolean",
        "string" | "&str" | "String" | "ImmutableString" => "a text",
        "char" => "a character",
        "Vec" if name.contains("u8") => "bytes",
        "array" | "Array" | "Vec" => "a list",
        "map" | "Map" | "BTreeMap" => "a map",
        "blob" | "Blob" | "Bytes" => "bytes",
        "Fn" | "FnPtr" => "a function",
        "range" | "range=" | "Range" | "RangeInclusive" | "ExclusiveRange" | "InclusiveRange" => "a range",
        "?" | "Dynamic" => "any value",
        "Object" | "View" => "a part of the object",
        "Patch" | "PatchHandle" => "the patch",
        "Memo" => "the memo",
        "Logger" => "the logger",
        "Settings" | "SettingsHandle" => "the settings",
        "Shared" | "SharedHandle" => "the values of `shared`",
        "Stopped" => "`stopped`",
        "Warnings" => "the warnings",
        "Entries" | "EntryList" => "the entries of an index",
        "Index" | "IndexHandle" => "an index",
        "Failure" => "an error",
        "cluster" | "OtherCluster" => "a cluster",
        "Receiver" => "a variable",
        other => return format!("a {}", other.to_lowercase()),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_in_messages() {
        for (name, title) in [
            ("&str | ImmutableString | String", "a text"),
            ("i64 | array", "a list or an integer"),
            ("kopfd::script::view::View", "a part of the object"),
            ("alloc::vec::Vec<rhai::types::dynamic::Dynamic>", "a list"),
            ("alloc::collections::btree::map::BTreeMap<smartstring::SmartString, rhai::Dynamic>", "a map"),
            ("Time", "a time"),
            ("Bytes", "bytes"),
            ("range=", "a range"),
        ] {
            assert_eq!(of_type(name), title, "{name}");
        }
        assert_eq!(of_value(&Dynamic::from_array(Vec::new())), "a list");
        assert_eq!(of_value(&Dynamic::UNIT), "`()`");
    }
}
