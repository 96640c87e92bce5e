//! What S3 says in the heads of requests, and in bodies of errors: signatures of AWS Signature Version 4, and codes.
//!
//! A client that has the secret key can sign: a request is written in one canonical form, and its hash goes with a
//! key that was derived for one day, region and service through HMAC-SHA256. The server does the same, and compares.
//! Source: AWS documentation, 'Authenticating Requests (AWS Signature Version 4)', whose examples are the tests. Text
//! in, text out; the time is an argument.

use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use virtlab_wire::Nanos;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// A block of SHA-256, to which HMAC pads its key (RFC 2104).
const BLOCK_BYTES: usize = 64;
const DAY_S: u64 = 86_400;
/// Of an error's body, which is some hundred octets.
pub const ERROR_MOST_BYTES: usize = 8 << 10;
/// Codes of errors that mean more than their HTTP status does.
pub const NO_BUCKET: &str = "NoSuchBucket";
pub const NO_KEY: &str = "NoSuchKey";
pub const SLOW_DOWN: &str = "SlowDown";
pub const OWN_BUCKET: &str = "BucketAlreadyOwnedByYou";

/// By which a client signs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    access_key: String,
    secret_key: String,
    region: String,
}

/// What is signed of a request.
pub struct Request<'a> {
    pub method: &'a str,
    /// As it is sent.
    pub path: &'a str,
    /// As it is sent, its parameters in order of their names, each with `=`.
    pub query: &'a str,
    /// Fields of its head beside date and hash, in lower case: they are signed, too.
    pub fields: &'a [(&'a str, &'a str)],
    /// SHA-256 of its body.
    pub body_hash: &'a str,
}

impl Keys {
    /// Lines of a request's head that sign it at an instant since 1970.
    pub fn head_lines(&self, request: &Request<'_>, now: Nanos) -> String {
        let at = stamp(now.0 / 1_000_000_000);
        let mut fields = request.fields.to_vec();
        fields.extend([("x-amz-content-sha256", request.body_hash), ("x-amz-date", &at)]);
        fields.sort_unstable();
        let (mut lines, mut names) = (String::new(), String::new());
        for (name, value) in &fields {
            let _ = writeln!(lines, "{name}:{}", value.trim());
            names.push_str(if names.is_empty() { "" } else { ";" });
            names.push_str(name);
        }
        let Request { method, path, query, body_hash, .. } = request;
        let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{body_hash}");
        let day = &at[..8];
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let signed = format!("{ALGORITHM}\n{at}\n{scope}\n{}", hash(canonical.as_bytes()));
        let first = format!("AWS4{}", self.secret_key);
        let key = [day, &self.region, "s3", "aws4_request"]
            .into_iter()
            .fold(first.into_bytes(), |key, part| hmac(&key, part.as_bytes()).to_vec());
        let signature = hex(&hmac(&key, signed.as_bytes()));
        format!(
            "x-amz-content-sha256: {body_hash}\r\nx-amz-date: {at}\r\n\
             Authorization: {ALGORITHM} Credential={}/{scope},SignedHeaders={names},Signature={signature}\r\n",
            self.access_key
        )
    }
}

/// SHA-256 of octets, as text.
pub fn hash(octets: &[u8]) -> String {
    hex(&Sha256::digest(octets))
}

/// HMAC-SHA256 (RFC 2104).
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut padded = [0; BLOCK_BYTES];
    if key.len() > BLOCK_BYTES {
        padded[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        padded[..key.len()].copy_from_slice(key);
    }
    let inner = Sha256::new().chain_update(padded.map(|octet| octet ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded.map(|octet| octet ^ 0x5c)).chain_update(inner).finalize().into()
}

fn hex(octets: &[u8]) -> String {
    let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
    octets.iter().flat_map(|octet| [digit(octet >> 4), digit(octet & 15)]).collect()
}

/// An instant as `20130524T000000Z`. Days become a date by 400-year cycles that begin in March (Howard Hinnant,
/// 'chrono-Compatible Low-Level Date Algorithms').
fn stamp(since_1970_s: u64) -> String {
    let (days, s) = (since_1970_s / DAY_S + 719_468, since_1970_s % DAY_S);
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153; // from March
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let (year, hour, minute) = (400 * cycle + year + next, s / 3600, s % 3600 / 60);
    format!("{year:04}{month:02}{of_month:02}T{hour:02}{minute:02}{:02}Z", s % 60)
}

/// What an error's body says is the matter, e.g. `NoSuchKey`.
pub fn code(body: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(body).ok()?;
    let code = text.split_once("<Code>")?.1.split_once("</Code>")?.0;
    (!code.is_empty() && code.bytes().all(|octet| octet.is_ascii_alphanumeric())).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: (&str, &str) = ("host", "examplebucket.s3.amazonaws.com");
    /// 24 May 2013, 00:00:00.
    const EXAMPLE: Nanos = Nanos(1_369_353_600_000_000_000);

    fn keys() -> Keys {
        Keys {
            access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            region: "us-east-1".to_owned(),
        }
    }

    fn signature(method: &str, path: &str, query: &str, fields: &[(&str, &str)], body: &[u8]) -> String {
        let request = Request { method, path, query, fields, body_hash: &hash(body) };
        let lines = keys().head_lines(&request, EXAMPLE);
        lines.trim_end().rsplit_once("Signature=").unwrap().1.to_owned()
    }

    #[test]
    fn the_examples_of_aws_are_signed_as_its_documentation_says() {
        let get = signature("GET", "/test.txt", "", &[HOST, ("range", "bytes=0-9")], b"");
        assert_eq!(get, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
        let fields =
            [("date", "Fri, 24 May 2013 00:00:00 GMT"), HOST, ("x-amz-storage-class", "REDUCED_REDUNDANCY")];
        let put = signature("PUT", "/test%24file.text", "", &fields, b"Welcome to Amazon S3.");
        assert_eq!(put, "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
        let lifecycle = signature("GET", "/", "lifecycle=", &[HOST], b"");
        assert_eq!(lifecycle, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
        let list = signature("GET", "/", "max-keys=2&prefix=J", &[HOST], b"");
        assert_eq!(list, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
    }

    #[test]
    fn the_whole_head_of_the_first_example_is_that_of_the_documentation() {
        let fields = [HOST, ("range", "bytes=0-9")];
        let request =
            Request { method: "GET", path: "/test.txt", query: "", fields: &fields, body_hash: &hash(b"") };
        assert_eq!(
            keys().head_lines(&request, EXAMPLE),
            "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\r\n\
             x-amz-date: 20130524T000000Z\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
             Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41\r\n"
        );
    }

    #[test]
    fn an_hmac_is_that_of_rfc_4231_with_short_and_with_long_keys() {
        let short = hmac(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(hex(&short), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let long = hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(hex(&long), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }

    #[test]
    fn dates_hold_in_leap_years_and_at_their_ends() {
        for (since, said) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (1_709_251_199, "20240229T235959Z"),
            (1_735_689_599, "20241231T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(stamp(since), said);
        }
    }

    #[test]
    fn a_code_is_read_from_an_errors_body_and_from_nothing_else() {
        let body = b"<?xml version='1.0' encoding='UTF-8'?>\n<Error><Code>NoSuchKey</Code><Message>...</Message></Error>";
        assert_eq!(code(body), Some(NO_KEY));
        for other in [&b"<Code></Code>"[..], b"<Code>a b</Code>", b"<Code>half", b"", b"\xff<Code>x</Code>"] {
            assert_eq!(code(other), None);
        }
    }
}
