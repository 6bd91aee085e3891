//! AWS Signature Version 4.

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use percent_encoding::{percent_decode_str, percent_encode};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::given::Given;
use super::hosts::{Thrown, authority};
use crate::kit::hexadecimal;
use crate::script::functions::library::RESERVED;

/// Headers that are signed besides those of AWS.
const SIGNED: [&str; 3] = ["content-type", "host", "range"];

/// The credentials of a signature, and its scope.
pub(super) struct Signer {
    access_key: String,
    secret_key: String,
    session_token: Option<String>,
    region: String,
    service: String,
}

/// The signed parts of a request.
pub(super) struct Signed<'a> {
    pub method: &'a str,
    pub url: &'a Url,
    pub headers: &'a [(String, String)],
    pub body: &'a [u8],
}

impl Signer {
    /// Reads the option `auth.aws`.
    ///
    /// # Errors
    /// If a part is missing or invalid.
    pub(super) fn read(aws: &Given) -> Result<Self, Thrown> {
        let [access_key, secret_key, region, service] = ["access_key", "secret_key", "region", "service"]
            .map(|key| aws.required(key).map(|text| text.trim().to_owned()));
        let session_token = aws.secret("session_token")?.map(|token| token.trim().to_owned());
        let signer = Self {
            access_key: access_key?,
            secret_key: secret_key?,
            session_token,
            region: region?,
            service: service?,
        };
        for (key, text) in
            [("access_key", &signer.access_key), ("region", &signer.region), ("service", &signer.service)]
        {
            if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic() && !b"/,".contains(&byte)) {
                return Err(aws.wrong(key, "a word"));
            }
        }
        if signer.session_token.as_deref().is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(aws.wrong("session_token", "a token"));
        }
        Ok(signer)
    }

    /// Returns the headers that a request needs besides its own.
    pub(super) fn headers(&self, request: &Signed<'_>, now: Timestamp) -> Vec<(String, String)> {
        let moment = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let mut added = vec![("x-amz-date".to_owned(), moment.clone())];
        if self.service == "s3" {
            added.push(("x-amz-content-sha256".to_owned(), hash(request.body)));
        }
        if let Some(token) = &self.session_token {
            added.push(("x-amz-security-token".to_owned(), token.clone()));
        }
        let host = ("host".to_owned(), authority(request.url));
        let all = request.headers.iter().chain(&added).chain([&host]);
        let mut headers: Vec<(&str, String)> = all
            .filter(|(name, _)| SIGNED.contains(&name.as_str()) || name.starts_with("x-amz-"))
            .map(|(name, value)| (name.as_str(), value.split_ascii_whitespace().collect::<Vec<_>>().join(" ")))
            .collect();
        headers.sort();
        let names = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let lines = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect::<Vec<_>>().concat();
        let (path, query) = (self.path(request.url), query(request.url));
        let canonical = format!("{}\n{path}\n{query}\n{lines}\n{names}\n{}", request.method, hash(request.body));
        let date = &moment[..8];
        let scope = format!("{date}/{}/{}/aws4_request", self.region, self.service);
        let text = format!("AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}", hash(canonical.as_bytes()));
        let key = [date, &self.region, &self.service, "aws4_request"]
            .into_iter()
            .fold(format!("AWS4{}", self.secret_key).into_bytes(), |key, part| mac(&key, part));
        let signature = hexadecimal(&mac(&key, &text));
        let credential = format!("Credential={}/{scope}", self.access_key);
        added.push((
            "authorization".to_owned(),
            format!("AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={signature}"),
        ));
        added
    }

    /// All services but S3 expect the encoded path to be encoded once more.
    fn path(&self, url: &Url) -> String {
        let segments = url.path().split('/').map(|segment| {
            let bytes: Vec<u8> =
                if self.service == "s3" { percent_decode_str(segment).collect() } else { segment.into() };
            percent_encode(&bytes, RESERVED).to_string()
        });
        segments.collect::<Vec<_>>().join("/")
    }
}

fn query(url: &Url) -> String {
    let encoded = |text: &str| percent_encode(&percent_decode_str(text).collect::<Vec<u8>>(), RESERVED).to_string();
    let pairs = url.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<(String, String)> = pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (encoded(name), encoded(value))
        })
        .collect();
    pairs.sort();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

fn hash(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length is valid");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// The published requests of the test suite, and of the documentation of IAM and S3.
#[cfg(test)]
mod tests {
    use super::*;

    fn signer(service: &str) -> Signer {
        let (access_key, secret_key) = match service {
            "s3" => ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
            _ => ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
        };
        Signer {
            access_key: access_key.to_owned(),
            secret_key: secret_key.to_owned(),
            session_token: None,
            region: "us-east-1".to_owned(),
            service: service.to_owned(),
        }
    }

    fn signature(service: &str, method: &str, url: &str, header: Option<(&str, &str)>, body: &str) -> String {
        let headers: Vec<_> = header.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let url = Url::parse(url).unwrap();
        let request = Signed { method, url: &url, headers: &headers, body: body.as_bytes() };
        let now = if service == "s3" { "2013-05-24T00:00:00Z" } else { "2015-08-30T12:36:00Z" };
        let made = signer(service).headers(&request, now.parse().unwrap());
        made.iter().find(|(name, _)| name == "authorization").unwrap().1.clone()
    }

    #[test]
    fn the_signatures_of_published_requests_are_the_published_ones() {
        let form = Some(("content-type", "application/x-www-form-urlencoded"));
        let iam = Some(("content-type", "application/x-www-form-urlencoded; charset=utf-8"));
        let base = "https://example.amazonaws.com/";
        let unreserved = format!("{base}-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
        let query = format!("{base}?Param2=value2&Param1=value1");
        for (service, method, url, header, body, expected) in [
            ("service", "GET", base, None, "", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            ("service", "POST", base, None, "", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
            (
                "service",
                "GET",
                &unreserved,
                None,
                "",
                "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
            ),
            ("service", "GET", &query, None, "", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"),
            (
                "service",
                "POST",
                base,
                form,
                "Param1=value1",
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
            (
                "iam",
                "GET",
                "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08",
                iam,
                "",
                "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
            ),
            (
                "s3",
                "GET",
                "https://examplebucket.s3.amazonaws.com/test.txt",
                Some(("range", "bytes=0-9")),
                "",
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
        ] {
            let made = signature(service, method, url, header, body);
            assert!(made.ends_with(&format!("Signature={expected}")), "{method} {url}: {made}");
        }
    }
}
