//! Tests of digests, keys, certificates and tokens, as scripts call them. Their results are compared with other
//! programs elsewhere.

use serde_json::json;

use super::{environment, fails, gives, plain, run, run_as};
use crate::script::runtime::context::Mode;

#[tokio::test]
async fn passwords_are_hashed_and_verified() {
    gives("crypto::verify_password(\"secret\", crypto::bcrypt(\"secret\", 4))", json!(true)).await;
    gives("crypto::verify_password(to_bytes(\"other\"), crypto::bcrypt(\"secret\", 4))", json!(false)).await;
    gives(
        "let hash = crypto::argon2(\"secret\", #{memory: 64, iterations: 1}); \
         [hash.starts_with(\"$argon2id$v=19$m=64,t=1,p=1$\"), crypto::verify_password(\"secret\", hash)]",
        json!([true, true]),
    )
    .await;
    gives("crypto::bcrypt(\"a\", 4) == crypto::bcrypt(\"a\", 4)", json!(false)).await;
    fails("crypto::bcrypt(\"a\", 40)", "the cost is an integer from 4 to 15").await;
    fails(
        "crypto::argon2(\"a\", #{memory: 1000000})",
        "`memory` of `crypto::argon2` must be an integer from 1 to 262144",
    )
    .await;
    fails("crypto::verify_password(\"a\", \"plain\")", "it is not a hash of bcrypt").await;
}

/// With a small limit of memory, Argon2 does not take more on another thread.
#[tokio::test]
async fn the_memory_of_hashes_counts() {
    fails("crypto::argon2(\"a\", #{memory: 262144})", "Ending").await;
}

#[tokio::test]
async fn bytes_are_encrypted() {
    gives(
        "let key = random::bytes(32); let made = crypto::encrypt(key, \"secret\", \"of me\"); \
         [crypto::decrypt(key, made, \"of me\").to_text(), made.len(), made == crypto::encrypt(key, \"secret\", \"of me\")]",
        json!(["secret", 34, false]),
    )
    .await;
    fails(
        "let key = random::bytes(32); crypto::decrypt(key, crypto::encrypt(key, \"a\"), \"b\")",
        "another key or other additional data",
    )
    .await;
    fails("crypto::encrypt(\"short\", \"a\")", "AES takes 16 or 32").await;
    gives(
        "let old = crypto::fernet_key(); let new_key = crypto::fernet_key(); let token = crypto::fernet_encrypt(old, \"secret\"); \
         crypto::fernet_decrypt([new_key, old], token, \"1h\").to_text()",
        json!("secret"),
    )
    .await;
    fails(
        "crypto::fernet_decrypt(crypto::fernet_key(), crypto::fernet_encrypt(crypto::fernet_key(), \"a\"))",
        "another key",
    )
    .await;
    fails("crypto::fernet_key().to_text().len() + crypto::fernet_encrypt(\"x\", \"a\")", "a key of Fernet is 32 bytes")
        .await;
}

#[tokio::test]
async fn keys_are_made_and_converted() {
    gives(
        "let key = crypto::generate_key(\"ec-p256\"); let value = \"to be signed\"; let signature = crypto::sign(key, value); \
         [crypto::key_kind(key), crypto::verify(crypto::public_key(key), value, signature), crypto::verify(key, \"x\", signature)]",
        json!(["ec-p256", true, false]),
    )
    .await;
    gives(
        "let key = crypto::generate_key(\"ed25519\"); \
         let ssh = crypto::private_key(key, #{format: \"openssh\", comment: \"me\"}); \
         let line = crypto::public_key(ssh, #{format: \"openssh\", comment: \"me\"}).to_text(); \
         [ssh.to_text().starts_with(\"-----BEGIN OPENSSH\"), line.starts_with(\"ssh-ed25519 \"), line.ends_with(\" me\"), \
          crypto::private_key(ssh) == key]",
        json!([true, true, true, true]),
    )
    .await;
    fails("crypto::generate_key(\"rsa\")", "there are rsa-2048, rsa-3072").await;
    fails("crypto::private_key(\"x\", #{format: \"pem\"})", "must be pkcs8, traditional, openssh or der").await;
    fails("crypto::public_key(\"x\")", "it is not a public key").await;
}

/// The script of an authority, and of a certificate that it signs.
const ISSUE: &str = "let ca_key = crypto::generate_key(\"ec-p256\"); \
     let ca = x509::self_signed(ca_key, #{subject: \"Root\", ca: true, path_length: 0}); \
     let key = crypto::generate_key(\"ec-p256\"); \
     let request = x509::request(key, #{subject: #{CN: \"web\", O: \"Example\"}, names: [\"web.example.com\", \"10.0.0.1\"]}); \
     let certificate = x509::sign(request, ca, ca_key, #{valid_for: \"30d\"}); ";

#[tokio::test]
async fn certificates_are_issued_read_and_verified() {
    let with = |rest: &str| format!("{ISSUE}{rest}");
    gives(
        &with(
            "let read = x509::read(certificate); \
             [read.common_name, read.names, read.usages, read.is_ca, read.key_kind, read.issuer, read.not_after - now() > 29.9 * 86400, \
              read.not_before < now(), read.serial.len(), read.pem == certificate]",
        ),
        json!(["web", ["web.example.com", "10.0.0.1"], ["server", "client"], false, "ec-p256", "CN=Root", true, true, 32, true]),
    )
    .await;
    gives(
        &with("x509::read_all(certificate.to_text() + ca.to_text()).map(|one| [one.common_name, one.is_ca])"),
        json!([["web", false], ["Root", true]]),
    )
    .await;
    gives(
        &with("[x509::verify(certificate, ca, #{name: \"web.example.com\"}), x509::matches(certificate, key), x509::matches(ca, key)]"),
        json!([true, true, false]),
    )
    .await;
    fails(
        &with("x509::verify(certificate, ca, #{name: \"other.example.com\"})"),
        "not valid for \"other.example.com\"",
    )
    .await;
    fails(&with("x509::verify(certificate, ca, #{at: now() + 31 * 86400})"), "has expired").await;
    fails(&with("x509::sign(request, certificate, key)"), "may not sign certificates: make it with `ca: true`").await;
    fails(&with("x509::sign(request, ca, key)"), "the key is not that of the authority's certificate").await;
    gives(
        &with("[x509::pkcs12(key, certificate + ca, \"changeit\", #{alias: \"web\"}).len() > 1000, x509::trust_store(ca, \"changeit\").len() > 300]"),
        json!([true, true]),
    )
    .await;
    fails(&with("x509::pkcs12(ca_key, certificate, \"changeit\")"), "the first certificate is not that of the key")
        .await;
    fails(&with("x509::pkcs12(key, certificate, \"\")"), "the password is empty").await;
    fails("x509::self_signed(crypto::generate_key(\"ed25519\"), #{subjects: \"a\"})", "has no option `subjects`").await;
    fails(
        "x509::self_signed(crypto::generate_key(\"ed25519\"), #{usages: [\"web\"]})",
        "an array of server, client, code and email",
    )
    .await;
    fails("x509::self_signed(crypto::generate_key(\"ed25519\"), #{path_length: 1})", "with `ca: true`").await;
    fails("x509::read(\"x\")", "there is no certificate in PEM").await;
}

#[tokio::test]
async fn tokens_are_signed_and_verified() {
    gives(
        "let token = jwt::sign(#{sub: \"me\", aud: \"a\", nbf: now()}, \"secret\", #{expires_in: \"1h\", key_id: \"1\"}); \
         let claims = jwt::verify(token, \"secret\", #{audience: \"a\", required: \"exp\"}); \
         let read = jwt::read_unverified(token); \
         [claims.sub, claims.exp - claims.iat, type_of(claims.nbf), read.header.alg, read.header.kid, read.claims == claims]",
        json!(["me", 3600, "i64", "HS256", "1", true]),
    )
    .await;
    gives(
        "let key = crypto::generate_key(\"ec-p256\"); let token = jwt::sign(#{sub: \"me\"}, key, #{key_id: \"1\"}); \
         let set = #{keys: [jwt::jwk(crypto::generate_key(\"ec-p256\"), #{key_id: \"0\"}), jwt::jwk(key, #{key_id: \"1\"})]}; \
         [jwt::verify(token, set).sub, jwt::verify(token, crypto::public_key(key)).sub, set.keys[1].alg]",
        json!(["me", "me", "ES256"]),
    )
    .await;
    fails("jwt::verify(jwt::sign(#{exp: now() - 1}, \"secret\"), \"secret\")", "the token has expired").await;
    gives("jwt::verify(jwt::sign(#{exp: now() - 1}, \"secret\"), \"secret\", #{leeway: 60}).len()", json!(1)).await;
    fails("jwt::verify(jwt::sign(#{}, \"secret\"), \"other\")", "the signature of the token is not that of the key")
        .await;
    fails("jwt::sign(1, \"secret\")", "the claims must be a map").await;
    fails("jwt::sign(#{}, \"secret\", #{algorithm: \"none\"})", "there is no algorithm \"none\"").await;
    fails("jwt::verify(\"a.b.c\", 1)", "must be a text, bytes, or a map").await;
    fails("jwt::verify(\"a.b.c\", \"secret\")", "it is not a token (JWT)").await;
}

#[tokio::test]
async fn failures_can_be_caught_by_their_kind() {
    gives(
        "let kinds = []; \
         try { jwt::verify(jwt::sign(#{}, \"a\"), \"b\"); } catch (error) { kinds.push(error.kind); } \
         try { crypto::private_key(\"x\"); } catch (error) { kinds.push(error.kind); } \
         try { crypto::generate_key(\"x\"); } catch (error) { kinds.push(error.kind); } kinds",
        json!(["crypto", "parse", "argument"]),
    )
    .await;
}

#[tokio::test]
async fn secrets_are_shown_nowhere() {
    for made in [
        "crypto::generate_key(\"ed25519\")",
        "crypto::fernet_key()",
        "crypto::private_key(crypto::generate_key(\"ec-p256\"), #{format: \"openssh\"})",
    ] {
        let shown =
            plain(run(&format!("let key = {made}; [`${{key}}`, key.to_debug(), #{{key: key}}.to_debug()]")).await)
                .unwrap();
        for text in shown.as_array().unwrap() {
            let text = text.as_str().unwrap();
            assert!(text.contains("bytes(") && text.len() < 40, "{made}: {text}");
        }
    }
    // Errors do not repeat the arguments.
    for call in [
        "crypto::private_key(\"hunter2\")",
        "jwt::verify(\"hunter2\", \"hunter2\")",
        "crypto::fernet_decrypt(\"hunter2\", \"hunter2\")",
        "crypto::verify_password(\"hunter2\", \"hunter2\")",
        "crypto::private_key(1)",
    ] {
        let error = plain(run(call).await).unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn expressions_make_nothing() {
    for call in [
        "crypto::bcrypt(\"a\")",
        "crypto::generate_key(\"ed25519\")",
        "crypto::encrypt(\"0123456789abcdef\", \"a\")",
        "crypto::fernet_key()",
        "jwt::sign(#{}, \"a\")",
        "jwt::verify(\"a.b.c\", \"a\")",
    ] {
        let error = plain(run_as(Mode::Expression, environment(), call).await).unwrap_err();
        assert!(error.contains("is not available in expressions"), "{call}: {error}");
    }
}

#[tokio::test]
async fn the_data_of_secrets_goes_both_ways() {
    gives(
        "let data = json::parse(json::dump(#{user: to_bytes(\"me\"), key: crypto::fernet_key()})); \
         let read = base64::decode_values(data); [data.user, read.user.to_text(), read.key.to_text().len()]",
        json!(["bWU=", "me", 44]),
    )
    .await;
    gives("[base64::decode_values(()), base64::decode_values(#{})]", json!([{}, {}])).await;
    fails("base64::decode_values(#{a: \"%\"})", "the value of \"a\"").await;
}
