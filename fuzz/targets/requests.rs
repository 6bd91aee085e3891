//! Arbitrary requests to one server, one after another. A request is a line with a method and a path, lines with
//! headers, an empty line, and the body.
//!
//! There is no panic, every answer is valid, and stored objects can be read, after any earlier requests.

#![no_main]

use bytes::Bytes;
use http::Request;
use kopfd_fuzz::{SEPARATOR, World};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let world = World::default();
    for text in split(input).into_iter().take(12) {
        let Some(request) = read(text) else { continue };
        world.send(request);
    }
    for path in ["/api/v1/namespaces", "/api/v1/configmaps", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"]
    {
        let list = world.ask("GET", path, "application/json", "");
        assert_eq!(list.status, 200, "{path}");
        for item in list.body["items"].as_array().expect("a list has items") {
            assert!(item["metadata"]["name"].is_string() && item["metadata"]["uid"].is_string(), "{item}");
        }
    }
});

fn split(input: &[u8]) -> Vec<&[u8]> {
    let (mut parts, mut rest) = (Vec::new(), input);
    while let Some(end) = rest.windows(SEPARATOR.len()).position(|part| part == SEPARATOR.as_bytes()) {
        parts.push(&rest[..end]);
        rest = &rest[end + SEPARATOR.len()..];
    }
    parts.push(rest);
    parts
}

fn read(text: &[u8]) -> Option<Request<Bytes>> {
    let end = text.windows(2).position(|pair| pair == b"\n\n").unwrap_or(text.len());
    let (head, body) = text.split_at(end);
    let mut lines = head.split(|byte| *byte == b'\n');
    let mut first = lines.next()?.splitn(2, |byte| *byte == b' ');
    let (method, path) = (first.next()?, first.next()?);
    let mut request = Request::builder().method(method).uri(path);
    for line in lines.take(8) {
        let colon = line.iter().position(|byte| *byte == b':')?;
        request = request.header(&line[..colon], line[colon + 1..].trim_ascii());
    }
    request.body(Bytes::copy_from_slice(body.get(2..).unwrap_or_default())).ok()
}
