//! `x509::`: certificates, requests for them, and stores of them.

use jiff::{SignedDuration, Timestamp};
use rhai::{Array, Dynamic, Engine, Map, Module};

use super::aside;
use super::values::{bytes, failed, given, private_key, random};
use crate::cryptography::{self, CertificateOptions, Details, Expected, Peer, Role, Usage, Validity};
use crate::script::functions::moments::moment;
use crate::script::functions::options::{Options, as_given};
use crate::script::functions::support::{Given, Native, Thrown, four, one, three, two, wrong};
use crate::script::runtime::context::Context;
use crate::script::values::script_error::Failure;
use crate::script::values::time::{Time, duration};

/// The options of a certificate's content.
const CONTENT: [&str; 6] = ["ca", "names", "path_length", "subject", "usages", "valid_for"];

/// How long certificates are valid, in days: those of authorities longer.
const DAYS: i64 = 90;
const DAYS_OF_AUTHORITIES: i64 = 3_650;

/// Registers the module.
pub(super) fn register(engine: &mut Engine) {
    let mut module = Module::new();
    let m = &mut module;
    two(m, "request", |_, key, options| request(key, options));
    two(m, "self_signed", self_signed);
    three(m, "sign", |native, request, authority, key| sign(native, &[request, authority, key], None));
    four(m, "sign", |native, [request, authority, key, options]| {
        sign(native, &[request, authority, key], Some(options))
    });
    one(m, "read", |_, certificate| read(certificate));
    one(m, "read_all", |_, certificates| read_all(certificates));
    two(m, "verify", |native, certificate, authorities| verify(native, certificate, authorities, None));
    three(m, "verify", |native, certificate, authorities, options| {
        verify(native, certificate, authorities, Some(options))
    });
    two(m, "matches", |_, certificate, key| matches(certificate, key));
    three(m, "pkcs12", |native, key, chain, password| pkcs12(native, &[key, chain, password], None));
    four(m, "pkcs12", |native, [key, chain, password, options]| pkcs12(native, &[key, chain, password], Some(options)));
    two(m, "trust_store", trust_store);
    engine.register_static_module("x509", module.into());
}

/// The content and the validity of a certificate in options.
struct Content {
    options: CertificateOptions,
    valid_for: Option<SignedDuration>,
}

impl Content {
    fn read(function: &'static str, known: &'static [&'static str], given: Option<&Dynamic>) -> Result<Self, Thrown> {
        let options = Options::read(function, known, given)?;
        let value =
            |key: &str| if known.contains(&key) { options.value(key).filter(|value| !value.is_null()) } else { None };
        let texts = |key: &str| {
            value(key)
                .map(|value| {
                    let texts = value
                        .as_array()
                        .and_then(|items| items.iter().map(|item| item.as_str().map(str::to_owned)).collect());
                    texts.ok_or_else(|| options.wrong(key, "an array of texts"))
                })
                .transpose()
        };
        let subject = value("subject").map(|subject| match subject {
            serde_json::Value::String(name) => Ok(vec![("CN".to_owned(), name.clone())]),
            serde_json::Value::Object(attributes) => attributes
                .iter()
                .map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| {
                    options.wrong("subject", "a common name, or a map of texts such as #{CN: \"a\", O: \"b\"}")
                }),
            _ => Err(options.wrong("subject", "a common name, or a map of texts such as #{CN: \"a\", O: \"b\"}")),
        });
        let usages: Option<Vec<String>> = texts("usages")?;
        let usages = usages.map(|usages| {
            let usage = |name: &String| Usage::ALL.iter().find(|(known, _)| known == name).map(|(_, usage)| *usage);
            usages
                .iter()
                .map(usage)
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| options.wrong("usages", "an array of server, client, code and email"))
        });
        let is_authority = known.contains(&"ca") && options.switch("ca", false)?;
        let length = value("path_length").map(|length| {
            let length = length.as_u64().and_then(|length| u8::try_from(length).ok()).filter(|_| is_authority);
            length.ok_or_else(|| options.wrong("path_length", "an integer from 0 to 255, with `ca: true`"))
        });
        let length = length.transpose()?;
        let valid_for = as_given(given, "valid_for").map(|value| duration(&value)).transpose()?;
        Ok(Self {
            options: CertificateOptions {
                subject: subject.transpose()?,
                names: texts("names")?,
                usages: usages.transpose()?,
                role: if is_authority { Role::Authority { below: length } } else { Role::EndEntity },
            },
            valid_for: valid_for.map(|duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)),
        })
    }

    fn validity(&self, now: Timestamp) -> Validity {
        let days = if self.options.role == Role::EndEntity { DAYS } else { DAYS_OF_AUTHORITIES };
        let whole = Validity::starting(now, self.valid_for.unwrap_or(SignedDuration::from_hours(days * 24)));
        // Certificates have no later year.
        let last = Timestamp::from_second(253_402_300_799).unwrap_or(Timestamp::MAX);
        Validity { not_after: whole.not_after.min(last), ..whole }
    }
}

fn now(native: &Native<'_>, function: &str) -> Result<Timestamp, Thrown> {
    let context = Context::of(native)?;
    context.varies(function)?;
    Ok(context.clock().now())
}

/// `x509::request(key, #{subject, names, usages})`: a request for a certificate.
fn request(key: &Dynamic, options: &Dynamic) -> Given {
    const NAME: &str = "x509::request";
    let content = Content::read(NAME, &["names", "subject", "usages"], Some(options))?;
    cryptography::request(&private_key(NAME, key, None)?, &content.options)
        .map(given)
        .map_err(|error| failed(NAME, error))
}

/// `x509::self_signed(key, #{subject, names, usages, valid_for, ca, path_length})`: a certificate that is signed by its
/// own key.
fn self_signed(native: &Native<'_>, key: &Dynamic, options: &Dynamic) -> Given {
    const NAME: &str = "x509::self_signed";
    let content = Content::read(NAME, &CONTENT, Some(options))?;
    let validity = content.validity(now(native, NAME)?);
    let made =
        cryptography::self_signed(&private_key(NAME, key, None)?, &content.options, validity, random(native, NAME)?);
    made.map(given).map_err(|error| failed(NAME, error))
}

/// `x509::sign(request, authority, key, [options])`: the certificate that an authority signs for a request. Options are
/// those of `x509::self_signed`, and replace the fields of the request.
fn sign(native: &Native<'_>, [request, authority, key]: &[&Dynamic; 3], options: Option<&Dynamic>) -> Given {
    const NAME: &str = "x509::sign";
    let content = Content::read(NAME, &CONTENT, options)?;
    let validity = content.validity(now(native, NAME)?);
    let (request, authority) =
        (bytes(NAME, "the request", request)?, bytes(NAME, "the certificate of the authority", authority)?);
    let key = private_key(NAME, key, None)?;
    let made = cryptography::signed(&request.0, &authority.0, &key, &content.options, validity, random(native, NAME)?);
    made.map(given).map_err(|error| failed(NAME, error))
}

fn all(function: &str, certificates: &Dynamic) -> Result<Vec<Details>, Thrown> {
    cryptography::details(&bytes(function, "the certificate", certificates)?.0).map_err(|error| failed(function, error))
}

/// `x509::read(certificate)`: the contents of the first certificate.
fn read(certificate: &Dynamic) -> Given {
    Ok(shown(all("x509::read", certificate)?.swap_remove(0)))
}

/// `x509::read_all(certificates)`: what all certificates of a text say.
fn read_all(certificates: &Dynamic) -> Given {
    Ok(all("x509::read_all", certificates)?.into_iter().map(shown).collect::<Array>().into())
}

fn shown(details: Details) -> Dynamic {
    let texts = |texts: Vec<String>| texts.into_iter().map(Dynamic::from).collect::<Array>();
    let mut map = Map::new();
    map.insert("subject".into(), details.subject.into());
    map.insert("common_name".into(), details.common_name.map_or(Dynamic::UNIT, Into::into));
    map.insert("issuer".into(), details.issuer.into());
    map.insert("serial".into(), details.serial.into());
    map.insert("not_before".into(), Dynamic::from(Time(details.not_before)));
    map.insert("not_after".into(), Dynamic::from(Time(details.not_after)));
    map.insert("names".into(), texts(details.names).into());
    map.insert("usages".into(), details.usages.into_iter().map(Dynamic::from).collect::<Array>().into());
    map.insert("is_ca".into(), details.is_authority.into());
    map.insert("fingerprint".into(), details.fingerprint.into());
    map.insert("key_kind".into(), details.key.into());
    map.insert("pem".into(), given(details.pem));
    map.into()
}

/// `x509::verify(certificate, authorities, [#{name, usage, intermediates, at}])`: true; an error with the reason if it
/// is not trusted.
fn verify(native: &Native<'_>, certificate: &Dynamic, authorities: &Dynamic, options: Option<&Dynamic>) -> Given {
    const NAME: &str = "x509::verify";
    let intermediates = as_given(options, "intermediates");
    let intermediates = intermediates.map(|value| bytes(NAME, "the option `intermediates`", &value)).transpose()?;
    let options = Options::read(NAME, &["at", "intermediates", "name", "usage"], options)?;
    let peer = match options.text("usage")? {
        None | Some("server") => Peer::Server,
        Some("client") => Peer::Client,
        Some(_) => return Err(options.wrong("usage", "server or client")),
    };
    let at = match options.text("at")? {
        Some(at) => moment(at).map_err(Failure::argument)?,
        None => now(native, NAME)?,
    };
    let expected = Expected { name: options.text("name")?.map(str::to_owned), peer, at };
    let (certificate, authorities) =
        (bytes(NAME, "the certificate", certificate)?, bytes(NAME, "the authorities", authorities)?);
    let intermediates = intermediates.as_ref().map(|intermediates| &*intermediates.0);
    cryptography::verify(&certificate.0, intermediates, &authorities.0, &expected)
        .map_err(|error| failed(NAME, error))?;
    Ok(true.into())
}

/// `x509::matches(certificate, key)`: whether the certificate is that of a private or public key.
fn matches(certificate: &Dynamic, key: &Dynamic) -> Given {
    const NAME: &str = "x509::matches";
    let (certificate, key) = (bytes(NAME, "the certificate", certificate)?, bytes(NAME, "the key", key)?);
    let is_same = cryptography::public_key_of(&key.0).and_then(|key| cryptography::is_of_key(&certificate.0, &key));
    Ok(is_same.map_err(|error| failed(NAME, error))?.into())
}

/// A password of a store: bytes are allowed, since those of Secrets are.
fn password(function: &str, value: &Dynamic) -> Result<String, Thrown> {
    let bytes = bytes(function, "the password", value)?;
    let password = String::from_utf8(bytes.0.to_vec()).map_err(|_| wrong(function, "the password is not UTF-8"))?;
    if password.is_empty() { Err(wrong(function, "the password is empty")) } else { Ok(password) }
}

/// `x509::pkcs12(key, chain, password, [#{alias}])`: a store with a key and its chain of certificates.
fn pkcs12(native: &Native<'_>, [key, chain, given_password]: &[&Dynamic; 3], options: Option<&Dynamic>) -> Given {
    const NAME: &str = "x509::pkcs12";
    let options = Options::read(NAME, &["alias"], options)?;
    let alias = options.text("alias")?.unwrap_or("1").to_owned();
    let (key, chain) = (private_key(NAME, key, None)?, bytes(NAME, "the certificates", chain)?.0.to_vec());
    let password = password(NAME, given_password)?;
    let made = aside::compute(native, NAME, move || cryptography::key_store(&key, &chain, &alias, &password))?;
    made.map(given).map_err(|error| failed(NAME, error))
}

/// `x509::trust_store(certificates, password)`: a store with trusted certificates, as Java takes it.
fn trust_store(native: &Native<'_>, certificates: &Dynamic, given_password: &Dynamic) -> Given {
    const NAME: &str = "x509::trust_store";
    let certificates = bytes(NAME, "the certificates", certificates)?.0.to_vec();
    let password = password(NAME, given_password)?;
    let made = aside::compute(native, NAME, move || cryptography::trust_store(&certificates, &password))?;
    made.map(given).map_err(|error| failed(NAME, error))
}
