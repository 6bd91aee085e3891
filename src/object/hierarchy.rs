//! Relations of objects: owner references, names, namespaces, and labels taken from an owner.
