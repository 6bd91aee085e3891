//! Keys, beside OpenSSL and OpenSSH.

use std::process::Command;

use super::super::*;
use super::Files;

/// A small size of RSA is enough: its keys are made quickly.
const KINDS: [KeyKind; 5] = [KeyKind::Rsa(2048), KeyKind::P256, KeyKind::P384, KeyKind::P521, KeyKind::Ed25519];

fn made(kind: KeyKind) -> PrivateKey {
    PrivateKey::generate(kind).unwrap()
}

fn pem(key: &PrivateKey, format: PrivateFormat) -> Vec<u8> {
    key.to_format(format, "me@here").unwrap()
}

fn is_same(a: &PrivateKey, b: &PrivateKey) -> bool {
    a.public() == b.public() && pem(a, PrivateFormat::Openssh) == pem(b, PrivateFormat::Openssh)
}

#[test]
fn every_form_is_read_again() {
    for kind in KINDS {
        let key = made(kind);
        assert_eq!((key.kind(), key.public().kind()), (kind, kind));
        for format in [PrivateFormat::Pkcs8, PrivateFormat::Traditional, PrivateFormat::Openssh, PrivateFormat::Der] {
            let Ok(written) = key.to_format(format, "") else {
                assert_eq!((kind, format), (KeyKind::Ed25519, PrivateFormat::Traditional));
                continue;
            };
            let read = PrivateKey::read(&written, None).unwrap();
            assert!(is_same(&key, &read), "{kind} {format:?}");
            assert_eq!(public_key_of(&written).is_ok(), format != PrivateFormat::Der, "{kind} {format:?}");
        }
        for format in [PublicFormat::Pem, PublicFormat::Openssh, PublicFormat::Der] {
            assert_eq!(
                PublicKey::read(&key.public().to_format(format, "a b").unwrap()),
                Ok(key.public()),
                "{kind} {format:?}"
            );
        }
        assert_eq!(format!("{key:?}"), format!("PrivateKey({kind})"));
    }
    let rsa = made(KeyKind::Rsa(2048)).public();
    assert_eq!(PublicKey::read(&rsa.to_format(PublicFormat::Traditional, "").unwrap()), Ok(rsa));
}

#[test]
fn openssl_reads_our_keys_and_signatures() {
    for kind in KINDS {
        let (files, key) = (Files::new(), made(kind));
        let public = key.public().to_format(PublicFormat::Pem, "").unwrap();
        for format in [PrivateFormat::Pkcs8, PrivateFormat::Traditional] {
            let Ok(written) = key.to_format(format, "") else { continue };
            files.write("key", &written);
            files.run("openssl pkey -in key -noout -check");
            files.run("openssl pkey -in key -pubout -out public");
            assert_eq!(files.read("public"), public, "{kind} {format:?}");
        }
        files.write("message", b"to be signed");
        let signature = key.sign(b"to be signed", RsaHash::Sha256).unwrap();
        files.write("signature", &signature);
        let verify = match kind {
            KeyKind::Ed25519 => "openssl pkeyutl -verify -pubin -inkey public -rawin -in message -sigfile signature",
            KeyKind::P384 => "openssl dgst -sha384 -verify public -signature signature message",
            KeyKind::P521 => "openssl dgst -sha512 -verify public -signature signature message",
            _ => "openssl dgst -sha256 -verify public -signature signature message",
        };
        files.run(verify);
        assert_eq!(key.public().verify(b"to be signed", &signature, RsaHash::Sha256), Ok(true), "{kind}");
        assert_eq!(key.public().verify(b"to be changed", &signature, RsaHash::Sha256), Ok(false), "{kind}");
        files.write("message", b"changed");
        assert!(files.try_run(verify).is_err(), "{kind}");
    }
}

#[test]
fn the_digest_of_rsa_signatures_can_be_chosen() {
    let (files, key) = (Files::new(), made(KeyKind::Rsa(2048)));
    files.write("public", &key.public().to_format(PublicFormat::Pem, "").unwrap());
    files.write("message", b"to be signed");
    for (hash, name) in [(RsaHash::Sha384, "sha384"), (RsaHash::Sha512, "sha512")] {
        let signature = key.sign(b"to be signed", hash).unwrap();
        files.write("signature", &signature);
        files.run(&format!("openssl dgst -{name} -verify public -signature signature message"));
        assert_eq!(key.public().verify(b"to be signed", &signature, hash), Ok(true));
        assert_eq!(key.public().verify(b"to be signed", &signature, RsaHash::Sha256), Ok(false));
    }
}

#[test]
fn keys_of_openssl_are_read() {
    let files = Files::new();
    for (options, kind) in [
        ("-algorithm RSA -pkeyopt rsa_keygen_bits:2048", KeyKind::Rsa(2048)),
        ("-algorithm EC -pkeyopt ec_paramgen_curve:P-256", KeyKind::P256),
        ("-algorithm EC -pkeyopt ec_paramgen_curve:P-384", KeyKind::P384),
        ("-algorithm EC -pkeyopt ec_paramgen_curve:P-521", KeyKind::P521),
        ("-algorithm ED25519", KeyKind::Ed25519),
    ] {
        files.run(&format!("openssl genpkey {options} -out key"));
        let key = PrivateKey::read(&files.read("key"), None).unwrap();
        assert_eq!(key.kind(), kind);
        if kind != KeyKind::Ed25519 {
            files.run("openssl pkey -in key -traditional -out traditional");
            assert!(is_same(&PrivateKey::read(&files.read("traditional"), None).unwrap(), &key), "{kind}");
        }
        files.run("openssl pkey -in key -outform DER -out der");
        assert!(is_same(&PrivateKey::read(&files.read("der"), None).unwrap(), &key), "{kind}");
        files.run("openssl pkcs8 -topk8 -in key -v2 aes-256-cbc -passout pass:secret -out encrypted");
        let encrypted = files.read("encrypted");
        assert!(is_same(&PrivateKey::read(&encrypted, Some("secret")).unwrap(), &key), "{kind}");
        assert!(matches!(PrivateKey::read(&encrypted, Some("other")), Err(CryptoError::Refused(_))));
        assert!(matches!(PrivateKey::read(&encrypted, None), Err(CryptoError::Argument(_))));
        files.run("openssl pkey -in key -pubout -out public");
        assert_eq!(PublicKey::read(&files.read("public")), Ok(key.public()), "{kind}");
    }
    // It puts the parameters of the curve before the key.
    files.run("openssl ecparam -name prime256v1 -genkey -out key");
    assert_eq!(PrivateKey::read(&files.read("key"), None).unwrap().kind(), KeyKind::P256);
}

#[test]
fn openssh_reads_our_keys() {
    for kind in KINDS {
        let (files, key) = (Files::new(), made(kind));
        let public = String::from_utf8(key.public().to_format(PublicFormat::Openssh, "me@here").unwrap()).unwrap();
        for format in [PrivateFormat::Openssh, PrivateFormat::Pkcs8] {
            files.write("key", &pem(&key, format));
            let printed = files.try_run("ssh-keygen -y -f key");
            // It reads Ed25519 in its own form only.
            if (kind, format) == (KeyKind::Ed25519, PrivateFormat::Pkcs8) {
                continue;
            }
            let expected = public.trim_end_matches(" me@here");
            assert!(
                printed.as_ref().is_ok_and(|printed| printed.starts_with(expected)),
                "{kind} {format:?}: {printed:?}"
            );
        }
        files.write("public", public.as_bytes());
        assert!(files.run("ssh-keygen -l -f public").contains("me@here"), "{kind}");
    }
}

#[test]
fn keys_of_openssh_are_read() {
    for (options, kind) in [
        ("-t rsa -b 2048", KeyKind::Rsa(2048)),
        ("-t ecdsa -b 256", KeyKind::P256),
        ("-t ecdsa -b 384", KeyKind::P384),
        ("-t ecdsa -b 521", KeyKind::P521),
        ("-t ed25519", KeyKind::Ed25519),
    ] {
        let files = Files::new();
        files.run(&format!("ssh-keygen -q {options} -C me@here -N secret -f key"));
        let encrypted = PrivateKey::read(&files.read("key"), None);
        assert!(matches!(encrypted, Err(CryptoError::Unreadable(message)) if message.contains("ssh-keygen -p")));
        // The new password is empty.
        let changed =
            Command::new("ssh-keygen").args(["-p", "-P", "secret", "-N", "", "-f"]).arg(files.path("key")).output();
        assert!(changed.unwrap().status.success());
        let key = PrivateKey::read(&files.read("key"), None).unwrap();
        assert_eq!(key.kind(), kind);
        assert_eq!(PublicKey::read(&files.read("key.pub")), Ok(key.public()), "{kind}");
        // Its numbers are complete: OpenSSL checks them.
        files.write("converted", &pem(&key, PrivateFormat::Pkcs8));
        files.run("openssl pkey -in converted -noout -check");
    }
}

#[test]
fn what_is_no_key_is_refused() {
    for text in [
        "",
        "secret",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        "-----BEGIN PRIVATE KEY-----\n%%",
    ] {
        assert!(matches!(PrivateKey::read(text.as_bytes(), None), Err(CryptoError::Unreadable(_))), "{text:?}");
        assert!(matches!(public_key_of(text.as_bytes()), Err(CryptoError::Unreadable(_))), "{text:?}");
    }
    let files = Files::new();
    files.run("openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:secp256k1 -out key");
    let error = PrivateKey::read(&files.read("key"), None).unwrap_err();
    assert!(error.to_string().contains("1.3.132.0.10"), "{error}");
    let error = KeyKind::of("rsa-1024").unwrap_err();
    assert!(error.to_string().contains("rsa-2048, rsa-3072"), "{error}");
}
