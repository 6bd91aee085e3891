//! Certificates, beside OpenSSL and keytool.

use jiff::{SignedDuration, Timestamp};

use super::super::*;
use super::{Files, is_installed};

fn now() -> Timestamp {
    crate::kit::Clock::system().now()
}

fn days(days: i64) -> Validity {
    Validity::starting(now(), SignedDuration::from_hours(24 * days))
}

fn options(name: &str, names: &[&str]) -> CertificateOptions {
    CertificateOptions {
        subject: Some(vec![("CN".to_owned(), name.to_owned()), ("O".to_owned(), "Example".to_owned())]),
        names: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        ..CertificateOptions::default()
    }
}

fn authority(name: &str) -> CertificateOptions {
    CertificateOptions { role: Role::Authority { below: None }, ..options(name, &[]) }
}

fn key(kind: KeyKind) -> PrivateKey {
    PrivateKey::generate(kind).unwrap()
}

fn expected(name: Option<&str>) -> Expected {
    Expected { name: name.map(str::to_owned), peer: Peer::Server, at: now() }
}

/// An authority with its key.
fn ca(kind: KeyKind) -> (PrivateKey, Vec<u8>) {
    let key = key(kind);
    let certificate = self_signed(&key, &authority("Root"), days(3650), [1; 16]).unwrap();
    (key, certificate)
}

#[test]
fn openssl_verifies_what_an_authority_signs() {
    for (kind, signer) in [
        (KeyKind::Rsa(2048), KeyKind::Rsa(2048)),
        (KeyKind::P256, KeyKind::P521),
        (KeyKind::P384, KeyKind::P384),
        (KeyKind::Ed25519, KeyKind::Ed25519),
    ] {
        let files = Files::new();
        let (ca_key, ca) = ca(signer);
        let leaf = key(kind);
        let names =
            ["example.com", "*.example.com", "10.0.0.1", "2001:db8::1", "me@example.com", "spiffe://example.com/a"];
        let request = request(&leaf, &options("example.com", &names)).unwrap();
        files.write("request", &request);
        assert!(files.run("openssl req -in request -noout -verify -text").contains("DNS:example.com"), "{kind}");
        let certificate = signed(&request, &ca, &ca_key, &CertificateOptions::default(), days(90), [2; 16]).unwrap();
        files.write("ca", &ca);
        files.write("certificate", &certificate);
        files.run(
            "openssl verify -x509_strict -CAfile ca -purpose sslserver -verify_hostname a.example.com certificate",
        );
        files.run("openssl verify -x509_strict -CAfile ca -purpose sslclient -verify_ip 10.0.0.1 certificate");
        let text = files.run("openssl x509 -in certificate -noout -text");
        for part in [
            "DNS:example.com, DNS:*.example.com, IP Address:10.0.0.1, IP Address:2001:DB8:0:0:0:0:0:1, email:me@example.com, URI:spiffe://example.com/a",
            "TLS Web Server Authentication, TLS Web Client Authentication",
            "CA:FALSE",
            "Authority Key Identifier",
            "Subject Key Identifier",
        ] {
            assert!(text.contains(part), "{kind} {part}: {text}");
        }
        assert_eq!(verify(&certificate, None, &ca, &expected(Some("b.example.com"))), Ok(()), "{kind}");
        assert!(
            is_of_key(&certificate, &leaf.public()).unwrap() && !is_of_key(&certificate, &ca_key.public()).unwrap()
        );
        let details = details(&certificate).unwrap().remove(0);
        assert_eq!(
            (details.common_name.as_deref(), details.is_authority, &*details.key),
            (Some("example.com"), false, &*kind.to_string())
        );
        assert_eq!(details.names, names);
        assert_eq!(details.usages, ["server", "client"]);
        let fingerprint = files
            .run("openssl x509 -in certificate -noout -fingerprint -sha256 -serial -subject -issuer -nameopt RFC2253");
        let shown = fingerprint.to_lowercase().replace(':', "");
        assert!(
            shown.contains(&details.fingerprint) && shown.contains(&format!("serial={}", details.serial)),
            "{fingerprint}"
        );
    }
}

#[test]
fn requests_of_openssl_are_signed() {
    let files = Files::new();
    let (ca_key, ca) = ca(KeyKind::P256);
    files.run("openssl req -new -newkey rsa:2048 -nodes -keyout key -subj /CN=of-openssl/O=Others -addext subjectAltName=DNS:a.example.com -out request");
    let certificate =
        signed(&files.read("request"), &ca, &ca_key, &CertificateOptions::default(), days(1), [3; 16]).unwrap();
    assert_eq!(verify(&certificate, None, &ca, &expected(Some("a.example.com"))), Ok(()));
    let read = details(&certificate).unwrap().remove(0);
    assert_eq!((read.common_name.as_deref(), &read.names[..]), (Some("of-openssl"), &["a.example.com".to_owned()][..]));
    // The options of the operator have precedence over the request of the sender.
    let other =
        signed(&files.read("request"), &ca, &ca_key, &options("mine", &["b.example.com"]), days(1), [4; 16]).unwrap();
    assert_eq!(details(&other).unwrap()[0].names, ["b.example.com"]);
}

#[test]
fn a_request_does_not_make_an_authority() {
    let files = Files::new();
    let (ca_key, ca) = ca(KeyKind::P256);
    files.run("openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key -subj /CN=evil -addext basicConstraints=CA:TRUE -out request");
    let certificate =
        signed(&files.read("request"), &ca, &ca_key, &CertificateOptions::default(), days(1), [3; 16]).unwrap();
    assert!(!details(&certificate).unwrap()[0].is_authority);
    let evil = PrivateKey::read(&files.read("key"), None).unwrap();
    let request = request(&key(KeyKind::P256), &options("x", &["x"])).unwrap();
    assert!(matches!(
        signed(&request, &certificate, &evil, &CertificateOptions::default(), days(1), [3; 16]),
        Err(CryptoError::Argument(_))
    ));
    // Neither does a request without a valid signature.
    let mut text = String::from_utf8(request).unwrap();
    let end = text.find("\n-----END").unwrap() - 6;
    let sign = if &text[end..=end] == "A" { "B" } else { "A" };
    text.replace_range(end..=end, sign);
    assert!(matches!(
        signed(text.as_bytes(), &ca, &ca_key, &CertificateOptions::default(), days(1), [3; 16]),
        Err(CryptoError::Refused(_) | CryptoError::Unreadable(_))
    ));
}

#[test]
fn chains_are_verified() {
    let (root_key, root) = ca(KeyKind::P256);
    let middle_key = key(KeyKind::P384);
    let middle = request(&middle_key, &options("Middle", &[])).unwrap();
    let limited = CertificateOptions { role: Role::Authority { below: Some(0) }, ..CertificateOptions::default() };
    let middle = signed(&middle, &root, &root_key, &limited, days(100), [5; 16]).unwrap();
    let leaf_key = key(KeyKind::Ed25519);
    let asked = request(&leaf_key, &options("leaf", &["leaf.example.com"])).unwrap();
    let leaf = signed(&asked, &middle, &middle_key, &CertificateOptions::default(), days(30), [6; 16]).unwrap();

    let files = Files::new();
    for (name, content) in [("root", &root), ("middle", &middle), ("leaf", &leaf)] {
        files.write(name, content);
    }
    files.run("openssl verify -x509_strict -CAfile root -untrusted middle leaf");

    assert_eq!(verify(&leaf, Some(&middle), &root, &expected(Some("leaf.example.com"))), Ok(()));
    assert_eq!(verify(&[leaf.clone(), middle.clone()].concat(), None, &root, &expected(None)), Ok(()));
    let refused = |leaf: &[u8], middle: Option<&[u8]>, root: &[u8], expected: &Expected| match verify(
        leaf, middle, root, expected,
    ) {
        Err(CryptoError::Refused(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert!(refused(&leaf, None, &root, &expected(None)).contains("is missing"));
    // An authority of the same name, and another one.
    assert!(
        refused(&leaf, Some(&middle), &ca(KeyKind::P256).1, &expected(None))
            .contains("not signed by the authority that it names")
    );
    let other = self_signed(&key(KeyKind::P256), &authority("Other"), days(1), [1; 16]).unwrap();
    assert!(refused(&leaf, Some(&middle), &other, &expected(None)).contains("no authority"));
    assert!(
        refused(&leaf, Some(&middle), &root, &expected(Some("other.example.com"))).contains("\"other.example.com\"")
    );
    let at = |at: Timestamp| Expected { at, ..expected(None) };
    assert!(refused(&leaf, Some(&middle), &root, &at(now() + SignedDuration::from_hours(24 * 31))).contains("expired"));
    assert!(
        refused(&leaf, Some(&middle), &root, &at(now() - SignedDuration::from_hours(1))).contains("not valid before")
    );
    // An authority below one that may have none.
    let below = signed(
        &request(&key(KeyKind::P256), &options("b", &[])).unwrap(),
        &middle,
        &middle_key,
        &authority("Below"),
        days(1),
        [7; 16],
    );
    assert!(verify(&below.unwrap(), Some(&middle), &root, &expected(None)).is_err());
    let client = CertificateOptions { usages: Some(vec![Usage::Client]), ..CertificateOptions::default() };
    let client = signed(&asked, &middle, &middle_key, &client, days(30), [8; 16]).unwrap();
    assert!(!refused(&client, Some(&middle), &root, &expected(None)).is_empty());
    assert_eq!(verify(&client, Some(&middle), &root, &Expected { peer: Peer::Client, ..expected(None) }), Ok(()));
}

#[test]
fn a_certificate_that_is_given_as_an_authority_is_trusted() {
    let own = key(KeyKind::P256);
    for role in [Role::EndEntity, Role::Authority { below: None }] {
        let content = CertificateOptions { role, ..options("self", &["self.example.com"]) };
        let certificate = self_signed(&own, &content, days(1), [9; 16]).unwrap();
        assert_eq!(verify(&certificate, None, &certificate, &expected(Some("self.example.com"))), Ok(()), "{role:?}");
        assert!(verify(&certificate, None, &certificate, &expected(Some("other.example.com"))).is_err(), "{role:?}");
        let late = Expected { at: now() + SignedDuration::from_hours(48), ..expected(None) };
        assert!(matches!(verify(&certificate, None, &certificate, &late), Err(CryptoError::Refused(_))), "{role:?}");
    }
}

#[test]
fn stores_are_read_by_openssl_and_keytool() {
    let files = Files::new();
    let (ca_key, ca) = ca(KeyKind::P256);
    let leaf = key(KeyKind::Rsa(2048));
    let request = request(&leaf, &options("leaf", &["leaf.example.com"])).unwrap();
    let certificate = signed(&request, &ca, &ca_key, &CertificateOptions::default(), days(90), [2; 16]).unwrap();
    let chain = [certificate.clone(), ca.clone()].concat();
    files.write("store", &key_store(&leaf, &chain, "web", "changeit").unwrap());
    let text = files.run("openssl pkcs12 -in store -passin pass:changeit -nodes");
    let found = PrivateKey::read(text.as_bytes(), None).unwrap();
    assert_eq!(found.public(), leaf.public());
    assert!(text.contains("friendlyName: web"), "{text}");
    let certificates = details(text.as_bytes()).unwrap();
    assert_eq!(
        certificates.iter().filter_map(|found| found.common_name.as_deref()).collect::<Vec<_>>(),
        ["leaf", "Root"]
    );
    assert!(files.try_run("openssl pkcs12 -in store -passin pass:other -nodes").is_err());
    files.write("trusted", &trust_store(&ca, "changeit").unwrap());
    if is_installed("keytool") {
        let listed = files.run("keytool -list -v -storetype PKCS12 -keystore store -storepass changeit");
        assert!(listed.contains("Alias name: web") && listed.contains("Certificate chain length: 2"), "{listed}");
        let listed = files.run("keytool -list -storetype PKCS12 -keystore trusted -storepass changeit");
        assert!(listed.contains("root-0") && listed.contains("trustedCertEntry"), "{listed}");
    }
    assert!(matches!(key_store(&ca_key, &chain, "web", "changeit"), Err(CryptoError::Argument(_))));
}

#[test]
fn mistakes_in_options_are_named() {
    let own = key(KeyKind::P256);
    let made = |options: &CertificateOptions| {
        self_signed(&own, options, days(1), [0; 16]).map(|_| ()).unwrap_err().to_string()
    };
    let subject =
        CertificateOptions { subject: Some(vec![("XX".to_owned(), String::new())]), ..CertificateOptions::default() };
    assert!(made(&subject).contains("CN, O, OU, C, ST, L"));
    for name in ["", "a b", "grün.example.com"] {
        assert!(made(&options("a", &[name])).contains("no name of a certificate"), "{name}");
    }
    assert!(matches!(details(b"x"), Err(CryptoError::Unreadable(_))));
}

#[test]
fn a_request_of_an_unsupported_kind_is_named() {
    let (ca_key, ca) = ca(KeyKind::P256);
    let request = request(&key(KeyKind::P521), &options("a", &["a"])).unwrap();
    let error = signed(&request, &ca, &ca_key, &CertificateOptions::default(), days(1), [3; 16]).unwrap_err();
    assert!(error.to_string().contains("ec-p521"), "{error}");
}
