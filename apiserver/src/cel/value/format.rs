//! Named formats as values.

use std::sync::LazyLock;

use kopfd_base::names;
use regex::Regex;

use crate::schema::formats;
use crate::schema::metadata::{self, NameRule};

/// A format.
#[derive(Debug)]
pub(crate) struct Format {
    /// The name.
    pub(crate) name: &'static str,
    /// The assumed length of its regular expression, for costs.
    pub(crate) length: u64,
    /// Returns the error of a text.
    pub(in crate::cel) mistake: fn(&str) -> Option<String>,
}

/// The formats.
pub(in crate::cel) static FORMATS: [Format; 13] = [
    Format { name: "dns1123Label", length: 30, mistake: |text| metadata::name_mistake(NameRule::Label, text, false) },
    Format {
        name: "dns1123Subdomain",
        length: 60,
        mistake: |text| metadata::name_mistake(NameRule::Subdomain, text, false),
    },
    Format { name: "dns1035Label", length: 30, mistake: |text| old_label_mistake(text, false) },
    Format { name: "qualifiedName", length: 60, mistake: names::qualified_mistake },
    Format {
        name: "dns1123LabelPrefix",
        length: 30,
        mistake: |text| metadata::name_mistake(NameRule::Label, text, true),
    },
    Format {
        name: "dns1123SubdomainPrefix",
        length: 60,
        mistake: |text| metadata::name_mistake(NameRule::Subdomain, text, true),
    },
    Format { name: "dns1035LabelPrefix", length: 30, mistake: |text| old_label_mistake(text, true) },
    Format { name: "labelValue", length: 40, mistake: metadata::label_value_mistake },
    Format { name: "uri", length: 1_103, mistake: |text| known(text, "uri", "invalid URI for request") },
    Format { name: "uuid", length: 70, mistake: |text| known(text, "uuid", "does not match the UUID format") },
    Format { name: "byte", length: 84, mistake: |text| known(text, "byte", "invalid base64") },
    Format { name: "date", length: 71, mistake: |text| known(text, "date", "invalid date") },
    Format { name: "datetime", length: 71, mistake: |text| known(text, "datetime", "invalid datetime") },
];

static OLD_LABEL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("^[a-z]([-a-z0-9]*[a-z0-9])?$").expect("the pattern is valid"));

fn known(text: &str, format: &str, why: &str) -> Option<String> {
    (!formats::fits(format, text)).then(|| why.to_owned())
}

fn old_label_mistake(text: &str, is_prefix: bool) -> Option<String> {
    let completed = if is_prefix { format!("{}a", text.trim_end_matches('-')) } else { text.to_owned() };
    if completed.len() > 63 {
        return Some("must be no more than 63 bytes".to_owned());
    }
    (!OLD_LABEL.is_match(&completed)).then(|| {
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an \
         alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            .to_owned()
    })
}
