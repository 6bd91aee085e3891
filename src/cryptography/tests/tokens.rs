//! Tokens, with the examples of RFC 7515.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::*;

/// The claims of all examples, which expire at 1300819380.
const CLAIMS: &str = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn no_demands() -> Expectations {
    Expectations::default()
}

/// Appendixes A.1, A.2 and A.3.
#[test]
fn the_tokens_of_the_standard_are_verified() {
    let secret = json!({ "kty": "oct", "k": "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow" });
    let rsa = json!({ "kty": "RSA", "e": "AQAB", "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ" });
    let ec = json!({ "kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0" });
    let hs256 =
        format!("eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.{CLAIMS}.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    let rs256 = format!(
        "eyJhbGciOiJSUzI1NiJ9.{CLAIMS}.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
    );
    let es256 = format!(
        "eyJhbGciOiJFUzI1NiJ9.{CLAIMS}.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
    );
    let set = json!({ "keys": [{ "kty": "unknown" }, rsa, ec] });
    for (token, key) in [(&hs256, &secret), (&rs256, &rsa), (&es256, &ec), (&rs256, &set), (&es256, &set)] {
        let claims = verify_with_set(token, key, &no_demands(), at(1_300_819_379)).unwrap();
        assert_eq!(
            Value::Object(claims),
            json!({ "iss": "joe", "exp": 1_300_819_380, "http://example.com/is_root": true })
        );
        assert_eq!(
            verify_with_set(token, key, &no_demands(), at(1_300_819_380)),
            Err(CryptoError::Refused("the token has expired".to_owned()))
        );
        let leeway = Expectations { leeway: Duration::from_mins(1), ..no_demands() };
        assert!(verify_with_set(token, key, &leeway, at(1_300_819_380)).is_ok());
        let changed = token.replace(".eyJpc3MiOiJqb2Ui", ".eyJpc3MiOiJqb2Yi");
        assert!(matches!(verify_with_set(&changed, key, &no_demands(), at(0)), Err(CryptoError::Refused(_))));
    }
    assert!(matches!(verify_with_set(&hs256, &set, &no_demands(), at(0)), Err(CryptoError::Refused(_))));
}

fn claims() -> Claims {
    json!({ "sub": "me", "aud": ["a", "b"], "iss": "here", "nbf": 100 }).as_object().unwrap().clone()
}

fn pem(key: &PrivateKey) -> Vec<u8> {
    key.to_format(PrivateFormat::Pkcs8, "").unwrap()
}

#[test]
fn every_kind_of_key_signs_what_its_public_part_verifies() {
    let expected = Expectations {
        audience: vec!["b".to_owned()],
        issuer: vec!["here".to_owned()],
        subject: Some("me".to_owned()),
        ..no_demands()
    };
    for (kind, algorithms) in [
        (KeyKind::Rsa(2048), &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"][..]),
        (KeyKind::P256, &["ES256"]),
        (KeyKind::P384, &["ES384"]),
        (KeyKind::Ed25519, &["EdDSA"]),
    ] {
        let key = PrivateKey::generate(kind).unwrap();
        let public = key.public().to_format(PublicFormat::Pem, "").unwrap();
        let set = json!({ "keys": [jwk(&key.public(), Some("1")).unwrap()] });
        for algorithm in algorithms {
            let fields = json!({ "kid": "1" });
            let token = sign(&claims(), &pem(&key), Some(algorithm), fields.as_object().unwrap()).unwrap();
            let (header, read) = read_unverified(&token).unwrap();
            assert_eq!(
                (header["alg"].as_str(), header["kid"].as_str(), read),
                (Some(*algorithm), Some("1"), Value::Object(claims()))
            );
            assert_eq!(verify_with_key(&token, &public, &expected, at(100)), Ok(claims()), "{algorithm}");
            assert_eq!(verify_with_set(&token, &set, &expected, at(100)), Ok(claims()), "{algorithm}");
            assert!(verify_with_key(&token, &public, &expected, at(99)).is_err(), "not yet");
        }
        let usual = sign(&claims(), &pem(&key), None, &Claims::new()).unwrap();
        assert_eq!(read_unverified(&usual).unwrap().0["alg"], algorithms[0]);
        assert!(matches!(sign(&claims(), &pem(&key), Some("HS256"), &Claims::new()), Err(CryptoError::Argument(_))));
    }
}

#[test]
fn a_public_key_is_no_secret() {
    let key = PrivateKey::generate(KeyKind::Rsa(2048)).unwrap();
    let public = key.public().to_format(PublicFormat::Pem, "").unwrap();
    // An attacker who knows the public key signs with it as a shared secret.
    let encoding = jsonwebtoken::EncodingKey::from_secret(&public);
    let forged = jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims(), &encoding).unwrap();
    for algorithms in [vec![], vec!["HS256".to_owned()], vec!["RS256".to_owned()]] {
        let expected = Expectations { algorithms, audience: vec!["a".to_owned()], ..no_demands() };
        assert!(matches!(verify_with_key(&forged, &public, &expected, at(200)), Err(CryptoError::Refused(_))));
    }
    assert!(sign(&claims(), &public, None, &Claims::new()).is_err());
    // A token without a signature.
    let unsigned = format!("eyJhbGciOiJub25lIn0.{CLAIMS}.");
    assert!(verify_with_key(&unsigned, &public, &no_demands(), at(0)).is_err());
    assert!(verify_with_key(&unsigned, b"secret", &no_demands(), at(0)).is_err());
}

#[test]
fn what_a_token_must_say_is_demanded() {
    let token = sign(&claims(), b"secret", None, &Claims::new()).unwrap();
    let to = |audience: &str| Expectations { audience: vec![audience.to_owned()], ..no_demands() };
    let reason = |expected: &Expectations| match verify_with_key(&token, b"secret", expected, at(100)) {
        Err(CryptoError::Refused(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert!(verify_with_key(&token, b"secret", &to("a"), at(100)).is_ok());
    assert!(reason(&no_demands()).contains("another audience"), "as in other libraries, an audience is not overlooked");
    assert!(reason(&to("c")).contains("another audience"));
    assert!(reason(&Expectations { issuer: vec!["there".to_owned()], ..to("a") }).contains("another issuer"));
    assert!(reason(&Expectations { subject: Some("you".to_owned()), ..to("a") }).contains("another subject"));
    assert!(reason(&Expectations { required: vec!["exp".to_owned()], ..to("a") }).contains("no claim `exp`"));
    assert!(reason(&Expectations { algorithms: vec!["HS512".to_owned()], ..to("a") }).contains("not allowed"));
    assert!(matches!(verify_with_key(&token, b"other", &to("a"), at(100)), Err(CryptoError::Refused(_))));
    assert!(matches!(verify_with_key("a.b", b"secret", &to("a"), at(100)), Err(CryptoError::Unreadable(_))));
    assert!(matches!(verify_with_key(&token, b"", &to("a"), at(100)), Err(CryptoError::Argument(_))));
    let bare = sign(&Claims::new(), b"secret", None, &Claims::new()).unwrap();
    for expected in [to("a"), Expectations { issuer: vec!["x".to_owned()], ..no_demands() }] {
        assert!(
            matches!(verify_with_key(&bare, b"secret", &expected, at(0)), Err(CryptoError::Refused(_))),
            "a claim is missing"
        );
    }
    let words = json!({ "exp": "tomorrow" });
    let words = sign(words.as_object().unwrap(), b"secret", None, &Claims::new()).unwrap();
    assert!(matches!(verify_with_key(&words, b"secret", &no_demands(), at(0)), Err(CryptoError::Refused(_))));
}
