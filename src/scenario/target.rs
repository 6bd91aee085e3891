//! Reads names of objects.

use crate::manifest::reader::{Fields, Item};

use super::model::Target;
use super::read_context::ReadContext;

/// Reads `object` and the optional `namespace`.
pub(super) fn read(context: &ReadContext<'_>, fields: &Fields<'_>) -> Option<Target> {
    let item = context.reader.required(fields, "object", "name it as `PLURAL/NAME`, such as `databases/orders-db`")?;
    read_text(context, &item, context.reader.string(fields, "namespace"))
}

/// Reads the name of an object.
pub(super) fn read_text(context: &ReadContext<'_>, item: &Item<'_>, namespace: Option<String>) -> Option<Target> {
    let text = &context.reader.text(item)?.value;
    let parts: Vec<&str> = text.split('/').collect();
    let own = |part: &str| part.to_owned();
    match parts.as_slice() {
        _ if parts.iter().any(|part| part.is_empty()) => {}
        [resource, name] => return Some(Target { resource: own(resource), name: own(name), namespace }),
        [namespace, resource, name] => {
            return Some(Target { resource: own(resource), name: own(name), namespace: Some(own(namespace)) });
        }
        _ => {}
    }
    context.reader.error_with(
        item,
        format!("`{text}` is not the name of an object"),
        "write `PLURAL/NAME`, such as `databases/orders-db`, or `NAMESPACE/PLURAL/NAME`",
    );
    None
}
