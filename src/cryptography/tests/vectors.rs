//! Published test vectors of hashes of passwords and of ciphers.

use jiff::Timestamp;

use super::super::*;
use super::bytes;

/// The limits of hashes that are verified: KiB, and passes.
const LIMITS: (u32, u32) = (256 << 10, 32);

fn is_password(password: &str, hash: &str) -> Result<bool, CryptoError> {
    verify_password(password.as_bytes(), hash, LIMITS.0, LIMITS.1)
}

/// From the tests of jBCrypt.
#[test]
fn bcrypt_is_that_of_others() {
    for (password, hash) in [
        ("a", "$2a$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe"),
        ("abc", "$2a$06$If6bvum7DFjUnE9p2uDeDu0YHzrHM6tf.iqN8.yx.jNN1ILEf7h0i"),
    ] {
        assert_eq!(is_password(password, hash), Ok(true), "{password}");
        assert_eq!(is_password("other", hash), Ok(false), "{password}");
        assert_eq!(is_password(password, &hash.replace("$2a$", "$2y$")), Ok(true), "{password} as of htpasswd");
    }
    let made = bcrypt(b"secret", 4, [7; 16]).unwrap();
    assert!(made.starts_with("$2b$04$"), "{made}");
    assert_eq!(is_password("secret", &made), Ok(true));
    assert!(matches!(bcrypt(&[b'x'; 73], 4, [0; 16]), Err(CryptoError::Argument(_))));
    assert!(matches!(bcrypt(b"a\0b", 4, [0; 16]), Err(CryptoError::Argument(_))));
    assert!(
        matches!(is_password("a", &made.replace("$04$", "$31$")), Err(CryptoError::Argument(_))),
        "it would take a day"
    );
    assert!(matches!(is_password("a", "$2b$04$short"), Err(CryptoError::Unreadable(_))));
}

/// From the tests of the reference implementation.
#[test]
fn argon2_is_that_of_others() {
    let hash = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
    assert_eq!(is_password("password", hash), Ok(true));
    assert_eq!(is_password("passwore", hash), Ok(false));
    let made = argon2(b"secret", Argon2Cost { memory: 64, iterations: 1, parallelism: 1 }, [7; 16]).unwrap();
    assert!(made.starts_with("$argon2id$v=19$m=64,t=1,p=1$"), "{made}");
    assert_eq!(is_password("secret", &made), Ok(true));
    assert!(matches!(is_password("a", &hash.replace("m=65536", "m=4000000")), Err(CryptoError::Argument(_))));
    assert!(matches!(is_password("a", "secret"), Err(CryptoError::Unreadable(_))));
}

/// Cases 4 and 16 of the proposal of GCM to NIST.
#[test]
fn aes_gcm_is_that_of_others() {
    let plain = bytes(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
    );
    let additional = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
    let nonce: [u8; NONCE_SIZE] = bytes("cafebabefacedbaddecaf888").try_into().unwrap();
    for (key, expected) in [
        (
            "feffe9928665731c6d6a8f9467308308",
            "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e0915bc94fbc3221a5db94fae95ae7121a47",
        ),
        (
            "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b",
        ),
    ] {
        let key = bytes(key);
        let mut encrypted = encrypt(&key, &plain, &additional, nonce).unwrap();
        assert_eq!(encrypted[NONCE_SIZE..], bytes(expected));
        assert_eq!(decrypt(&key, &encrypted, &additional).unwrap(), plain);
        assert!(matches!(decrypt(&key, &encrypted, b"other"), Err(CryptoError::Refused(_))));
        encrypted[20] ^= 1;
        assert!(matches!(decrypt(&key, &encrypted, &additional), Err(CryptoError::Refused(_))));
        assert!(matches!(decrypt(&key, &encrypted[..5], &additional), Err(CryptoError::Refused(_))));
    }
    assert!(matches!(encrypt(b"short", b"", b"", nonce), Err(CryptoError::Argument(_))));
}

/// From the specification of Fernet.
#[test]
fn fernet_is_that_of_others() {
    let key = Fernet::read(b"cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4=").unwrap();
    let made: Timestamp = "1985-10-26T01:20:00-07:00".parse().unwrap();
    let later = |seconds: i64| Timestamp::from_second(made.as_second() + seconds).unwrap();
    let token = "gAAAAAAdwJ6wAAECAwQFBgcICQoLDA0ODy021cpGVWKZ_eEwCGM4BLLF_5CV9dOPmrhuVUPgJobwOz7JcbmrR64jVmpU4IwqDA==";
    assert_eq!(key.encrypt(b"hello", made, std::array::from_fn(|at| at as u8)), token);
    assert_eq!(key.decrypt(token.as_bytes(), later(1), Some(60)).unwrap(), b"hello");
    assert_eq!(key.decrypt(token.trim_end_matches('=').as_bytes(), later(9_999), None).unwrap(), b"hello");
    for (why, token, at) in [
        (
            "incorrect code",
            "gAAAAAAdwJ6xAAECAwQFBgcICQoLDA0OD3HkMATM5lFqGaerZ-fWPAl1-szkFVzXTuGb4hR8AKtwcaX1YdykQUFBQUFBQUFBQQ==",
            1,
        ),
        ("too short", "gAAAAAAdwJ6xAAECAwQFBgcICQoLDA0OD3HkMATM5lFqGaerZ-fWPA==", 1),
        (
            "invalid base64",
            "%%%%%%%%%%%%%AECAwQFBgcICQoLDA0OD3HkMATM5lFqGaerZ-fWPAl1-szkFVzXTuGb4hR8AKtwcaX1YdykRtfsH-p1YsUD2Q==",
            1,
        ),
        (
            "padding",
            "gAAAAAAdwJ6xAAECAwQFBgcICQoLDA0ODz4LEpdELGQAad7aNEHbf-JkLPIpuiYRLQ3RtXatOYREu2FWke6CnJNYIbkuKNqOhw==",
            1,
        ),
        ("too old", token, 61),
        ("from the future", token, -120),
    ] {
        assert!(key.decrypt(token.as_bytes(), later(at), Some(60)).is_err(), "{why}");
    }
    assert!(Fernet::read(b"c2hvcnQ=").is_err());
}
