//! Types of expressions, and their compatibility.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::Arc;

/// A type.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::enum_variant_names, reason = "types of types are called so")]
pub(crate) enum Type {
    /// Dynamic: known only at the evaluation.
    Dyn,
    /// The type of an invalid expression: compatible with all types, so that each error is reported once.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Type>),
    Map(Arc<(Type, Type)>),
    /// The type of types.
    Type(Option<Arc<Type>>),
    Optional(Arc<Type>),
    /// A type of a function library, such as `kubernetes.Quantity`.
    Library(&'static str),
    /// An object with known members.
    Object(Arc<Object>),
    /// A parameter in the signature of a function.
    Parameter(u8),
    /// A type that is not known yet, by its number in the [`Substitutions`].
    Variable(usize),
}

/// A type of objects. Types with the same name are equal.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    /// The name in messages.
    pub(crate) name: String,
    /// The members.
    pub(crate) fields: BTreeMap<String, Type>,
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// An error at a position of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Issue {
    /// The number of the character.
    pub(super) offset: usize,
    /// The message.
    pub(super) text: String,
}

impl Type {
    /// Returns the type of lists.
    pub(crate) fn list(items: Self) -> Self {
        Self::List(Arc::new(items))
    }

    /// Returns the type of maps.
    pub(crate) fn map(keys: Self, values: Self) -> Self {
        Self::Map(Arc::new((keys, values)))
    }

    /// Returns the type of values that may be absent.
    pub(crate) fn optional(value: Self) -> Self {
        Self::Optional(Arc::new(value))
    }

    /// Tells whether the type is compatible with all types.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    fn takes_null(&self) -> bool {
        matches!(
            self,
            Self::Null | Self::Duration | Self::Timestamp | Self::Optional(_) | Self::Library(_) | Self::Object(_)
        )
    }

    /// Returns the types inside of this one.
    fn inner(&self) -> Vec<&Type> {
        match self {
            Self::List(inner) | Self::Optional(inner) | Self::Type(Some(inner)) => vec![inner],
            Self::Map(inner) => vec![&inner.0, &inner.1],
            _ => Vec::new(),
        }
    }

    /// Returns the type with other types inside.
    fn with_inner(&self, replace: &mut dyn FnMut(&Type) -> Type) -> Type {
        match self {
            Self::List(items) => Self::list(replace(items)),
            Self::Optional(value) => Self::optional(replace(value)),
            Self::Type(Some(inner)) => Self::Type(Some(Arc::new(replace(inner)))),
            Self::Map(inner) => Self::map(replace(&inner.0), replace(&inner.1)),
            other => other.clone(),
        }
    }

    /// Returns the type with the parameters of a signature replaced.
    pub(super) fn instantiate(&self, parameters: &dyn Fn(u8) -> Type) -> Type {
        match self {
            Self::Parameter(number) => parameters(*number),
            other => other.with_inner(&mut |inner| inner.instantiate(parameters)),
        }
    }

    /// Tells whether types are equivalent at run time: type parameters do not count.
    pub(super) fn is_equivalent(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(_), Self::List(_)) | (Self::Map(_), Self::Map(_)) | (Self::Optional(_), Self::Optional(_)) => {
                self.inner().into_iter().zip(other.inner()).all(|(one, other)| one.is_equivalent(other))
            }
            (Self::Type(_), Self::Type(_)) => true,
            _ => self == other,
        }
    }
}

impl Display for Type {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => formatter.write_str("dyn"),
            Self::Error => formatter.write_str("!error!"),
            Self::Null => formatter.write_str("null"),
            Self::Bool => formatter.write_str("bool"),
            Self::Int => formatter.write_str("int"),
            Self::Uint => formatter.write_str("uint"),
            Self::Double => formatter.write_str("double"),
            Self::String => formatter.write_str("string"),
            Self::Bytes => formatter.write_str("bytes"),
            Self::Duration => formatter.write_str("duration"),
            Self::Timestamp => formatter.write_str("timestamp"),
            Self::List(items) => write!(formatter, "list({items})"),
            Self::Map(inner) => write!(formatter, "map({}, {})", inner.0, inner.1),
            Self::Type(None) => formatter.write_str("type"),
            Self::Type(Some(inner)) => write!(formatter, "type({inner})"),
            Self::Optional(value) => write!(formatter, "optional_type({value})"),
            Self::Library(name) => formatter.write_str(name),
            Self::Object(object) => formatter.write_str(&object.name),
            Self::Parameter(number) => write!(formatter, "{}", char::from(b'A' + number)),
            Self::Variable(number) => write!(formatter, "_var{number}"),
        }
    }
}

/// The inferred types of type variables. The rules are those of the type checker of cel-go.
#[derive(Debug, Default)]
pub(super) struct Substitutions {
    known: Vec<Option<Type>>,
}

impl Substitutions {
    /// Returns a new type variable.
    pub(super) fn fresh(&mut self) -> Type {
        self.known.push(None);
        Type::Variable(self.known.len() - 1)
    }

    /// Tells whether the types of all pairs are compatible. Inferred types are kept only if all are.
    pub(super) fn fit_all<'a>(&mut self, pairs: impl IntoIterator<Item = (&'a Type, &'a Type)>) -> bool {
        let before = self.known.clone();
        let fits = pairs.into_iter().all(|(one, other)| self.unify(one, other));
        if !fits {
            self.known = before;
        }
        fits
    }

    /// Tells whether a type is compatible with another.
    pub(super) fn fit(&mut self, one: &Type, other: &Type) -> bool {
        self.fit_all([(one, other)])
    }

    /// Returns a type with all inferred types. Unknown ones become `dyn` if requested.
    pub(super) fn resolve(&self, one: &Type, unknown_is_dyn: bool) -> Type {
        match one {
            Type::Variable(number) => match &self.known[*number] {
                Some(known) => self.resolve(known, unknown_is_dyn),
                None if unknown_is_dyn => Type::Dyn,
                None => one.clone(),
            },
            other => other.with_inner(&mut |inner| self.resolve(inner, unknown_is_dyn)),
        }
    }

    fn unify(&mut self, one: &Type, other: &Type) -> bool {
        if let Type::Variable(number) = other {
            let was_known = self.known[*number].is_some();
            if one == other || self.learn(*number, one) {
                return true;
            }
            if was_known {
                return false;
            }
        }
        if let Type::Variable(number) = one {
            return self.learn(*number, other);
        }
        match (one, other) {
            _ if one.is_open() || other.is_open() => true,
            (Type::Null, other) => other.takes_null(),
            (one, Type::Null) => one.takes_null(),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(_), Type::List(_)) | (Type::Map(_), Type::Map(_)) | (Type::Optional(_), Type::Optional(_)) => {
                one.inner().into_iter().zip(other.inner()).all(|(one, other)| self.unify(one, other))
            }
            _ => one == other,
        }
    }

    /// Infers the type of a variable, or the more general one of this and its known type.
    fn learn(&mut self, variable: usize, one: &Type) -> bool {
        let Some(known) = self.known[variable].clone() else {
            let is_free = !self.occurs(variable, one);
            if is_free {
                self.known[variable] = Some(one.clone());
            }
            return is_free;
        };
        if known == *one {
            return true;
        }
        if !self.unify(one, &known) {
            return false;
        }
        let general = more_general(one, &known);
        if !self.occurs(variable, &general) {
            self.known[variable] = Some(general);
        }
        true
    }

    fn occurs(&self, variable: usize, within: &Type) -> bool {
        match within {
            Type::Variable(number) if *number == variable => true,
            Type::Variable(number) => self.known[*number].as_ref().is_some_and(|known| self.occurs(variable, known)),
            other => other.inner().into_iter().any(|inner| self.occurs(variable, inner)),
        }
    }
}

/// Returns the more general of two compatible types.
pub(super) fn more_general(one: &Type, other: &Type) -> Type {
    if is_as_general(one, other) { one.clone() } else { other.clone() }
}

fn is_as_general(one: &Type, other: &Type) -> bool {
    match (one, other) {
        (Type::Dyn | Type::Variable(_), _) | (Type::Type(_), Type::Type(_)) => true,
        (_, Type::Dyn | Type::Variable(_)) => false,
        (Type::List(_), Type::List(_)) | (Type::Map(_), Type::Map(_)) | (Type::Optional(_), Type::Optional(_)) => {
            one.inner().into_iter().zip(other.inner()).all(|(one, other)| is_as_general(one, other))
        }
        _ => one == other,
    }
}
