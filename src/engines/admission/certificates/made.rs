//! Made certificates, and when they are replaced.
//!
//! ```text
//! authority 1 ────────────────────────────────────────── expires, and is dropped
//!   certificate ─── certificate ─── … ─── certificate
//!                                   authority 2 is made, and told to the API server ──────────── …
//!                                         its first certificate
//! ```
//!
//! A certificate is replaced under the same authority, which clients do not notice. An authority is replaced long
//! before it expires, and signs nothing before the API server knows it.

use jiff::{SignedDuration, Timestamp};

use super::served::ServerCertificate;
use crate::http::{Authority, Certificate, CertificateError, Validity};

/// The common name of made authorities.
const NAME: &str = "kopfd admission webhooks";

/// The validity of certificates, as in kopf.
pub(super) const VALIDITY: SignedDuration = SignedDuration::from_hours(365 * 24);

/// The validity of authorities.
pub(super) const AUTHORITY_VALIDITY: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);

/// The rest of its validity at which a certificate is replaced.
const RENEWAL: SignedDuration = SignedDuration::from_hours(122 * 24);

/// The rest of its validity at which an authority is replaced: it must outlive the certificates that it signs.
const AUTHORITY_RENEWAL: SignedDuration = SignedDuration::from_hours(2 * 365 * 24);

/// A new authority signs after this time, when each API server has read the changed configuration.
const ANNOUNCEMENT: SignedDuration = SignedDuration::from_hours(1);

/// Made authorities with their keys, the newest first, and the certificate that is served.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) authorities: Vec<Certificate>,
    pub(super) served: Option<Certificate>,
}

/// The facts that decide when made certificates are replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Age {
    /// The validities of the authorities, the newest first.
    pub(super) authorities: Vec<Validity>,
    /// The validity of the served certificate; `None` if it cannot be used: there is none, or the authorities or the
    /// names are others.
    pub(super) served: Option<Validity>,
}

/// The next change of made certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The authority of this number has expired.
    Drop(usize),
    /// A new authority is needed.
    Make,
    /// A new certificate is needed, signed by the authority of this number.
    Issue(usize),
    /// Nothing is needed before this time.
    Wait(Timestamp),
}

/// Decides about the next change.
pub(super) fn next(age: &Age, now: Timestamp) -> Step {
    let later = |moment: Timestamp, by: SignedDuration| moment.checked_add(by).unwrap_or(Timestamp::MAX);
    let earlier = |moment: Timestamp, by: SignedDuration| moment.checked_sub(by).unwrap_or(Timestamp::MIN);
    if let Some(expired) = age.authorities.iter().position(|authority| authority.not_after <= now) {
        return Step::Drop(expired);
    }
    let Some((newest, older)) = age.authorities.split_first() else { return Step::Make };
    let authority_due_at = earlier(newest.not_after, AUTHORITY_RENEWAL);
    if authority_due_at <= now {
        return Step::Make;
    }
    let announced_at = later(newest.not_before, ANNOUNCEMENT);
    let signer = usize::from(announced_at > now && !older.is_empty());
    let Some(served) = age.served else { return Step::Issue(signer) };
    let due_at = earlier(served.not_after, RENEWAL);
    if due_at <= now {
        return Step::Issue(signer);
    }
    let dropped_at = older.iter().map(|authority| authority.not_after).min().unwrap_or(Timestamp::MAX);
    Step::Wait(due_at.min(authority_due_at).min(dropped_at))
}

impl Made {
    /// Carries out all changes that are needed, and returns when the next one is.
    ///
    /// # Errors
    /// If no certificate can be made for these names.
    pub(super) fn renew(&mut self, names: &[String], now: Timestamp) -> Result<Timestamp, CertificateError> {
        // Unreadable parts are made anew.
        self.authorities.retain(|authority| Authority::read(NAME, authority).is_ok());
        loop {
            match next(&self.age(names, now), now) {
                Step::Drop(expired) => drop(self.authorities.remove(expired)),
                Step::Make => {
                    let authority = Authority::make(NAME, Validity::starting(now, AUTHORITY_VALIDITY))?;
                    self.authorities.insert(0, authority.to_certificate());
                }
                Step::Issue(signer) => {
                    let authority = Authority::read(NAME, &self.authorities[signer])?;
                    let names = self.with_known_names(names);
                    self.served = Some(authority.issue(&names, Validity::starting(now, VALIDITY))?);
                }
                Step::Wait(until) => return Ok(until),
            }
        }
    }

    /// Returns these names, and after them others of the served certificate: replicas with different names share it.
    fn with_known_names(&self, names: &[String]) -> Vec<String> {
        let known = self.served.as_ref().map(Certificate::names).unwrap_or_default();
        names.iter().cloned().chain(known.into_iter().filter(|name| !names.contains(name))).collect()
    }

    fn age(&self, names: &[String], now: Timestamp) -> Age {
        let authorities = self.authorities.iter().filter_map(|authority| authority.validity().ok()).collect();
        let (bundle, served) = (self.bundle(), self.served.as_ref());
        let served =
            served.filter(|served| served.is_pair() && names.iter().all(|name| served.is_trusted(&bundle, name, now)));
        Age { authorities, served: served.and_then(|served| served.validity().ok()) }
    }

    /// Returns the authorities as one text.
    pub(super) fn bundle(&self) -> String {
        self.authorities.iter().map(|authority| authority.chain.as_str()).collect()
    }

    /// Returns the certificate and the authorities for the server, once a certificate was issued.
    pub(super) fn to_served(&self) -> Option<ServerCertificate> {
        Some(ServerCertificate { certificate: self.served.clone()?, authorities: Some(self.bundle()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: SignedDuration = SignedDuration::from_hours(24);

    fn at(days: i64) -> Timestamp {
        let start: Timestamp = "2027-01-01T00:00:00Z".parse().unwrap();
        start.checked_add(SignedDuration::from_hours(24 * days)).unwrap()
    }

    /// Returns a validity between two days.
    fn from_to(from: i64, to: i64) -> Validity {
        Validity { not_before: at(from), not_after: at(to) }
    }

    fn step(authorities: &[Validity], served: Option<Validity>, now: Timestamp) -> Step {
        next(&Age { authorities: authorities.to_vec(), served }, now)
    }

    #[test]
    fn steps_follow_from_the_ages() {
        let (old, new) = (from_to(0, 3650), from_to(2920, 6570));
        let table = [
            (vec![], None, 0, Step::Make),
            (vec![old], None, 0, Step::Issue(0)),
            (vec![old], Some(from_to(0, 365)), 1, Step::Wait(at(243))),
            (vec![old], Some(from_to(0, 365)), 243, Step::Issue(0)),
            (vec![old], Some(from_to(2800, 3165)), 2919, Step::Wait(at(2920))),
            (vec![old], Some(from_to(2800, 3165)), 2920, Step::Make),
            (vec![new, old], None, 2920, Step::Issue(1)),
            (vec![new, old], Some(from_to(2800, 3165)), 2921, Step::Wait(at(3043))),
            (vec![new, old], Some(from_to(2800, 3165)), 3043, Step::Issue(0)),
            (vec![new, old], Some(from_to(3500, 3865)), 3600, Step::Wait(at(3650))),
            (vec![new, old], Some(from_to(3500, 3865)), 3650, Step::Drop(1)),
            (vec![old], Some(from_to(3000, 3365)), 4000, Step::Drop(0)),
        ];
        for (authorities, served, day, expected) in table {
            assert_eq!(step(&authorities, served, at(day)), expected, "day {day}");
        }
    }

    #[test]
    fn an_authority_signs_before_its_announcement_only_if_it_is_the_only_one() {
        let (new, old) = (from_to(10, 3660), from_to(0, 3000));
        let soon = at(10).checked_add(SignedDuration::from_mins(59)).unwrap();
        assert_eq!(step(&[new], None, soon), Step::Issue(0));
        assert_eq!(step(&[new, old], None, soon), Step::Issue(1));
        assert_eq!(step(&[new, old], None, at(11)), Step::Issue(0));
    }

    #[test]
    fn at_every_moment_of_twenty_years_the_certificate_is_trusted_by_a_client_that_is_a_day_behind() {
        let names = ["hooks.default.svc".to_owned(), "10.0.0.1".to_owned()];
        let mut made = Made::default();
        let (mut known, mut now, mut changes) = (String::new(), at(0), 0);
        while now < at(20 * 365) {
            let before = made.clone();
            let until = made.renew(&names, now).unwrap();
            assert!(until > now);
            changes += usize::from(made != before);
            // The API server got the authorities of the day before.
            let bundle = if known.is_empty() { made.bundle() } else { known };
            let served = made.served.clone().unwrap();
            assert!(names.iter().all(|name| served.is_trusted(&bundle, name, now)), "{now}");
            known = made.bundle();
            now = until.min(now.checked_add(DAY).unwrap());
        }
        assert!((30..40).contains(&changes), "{changes}");
        assert_eq!(made.authorities.len(), 1, "the third authority has followed, and the others were dropped");
    }

    #[test]
    fn a_certificate_for_other_names_or_of_another_authority_is_replaced() {
        let names = |name: &str| [name.to_owned()];
        let mut made = Made::default();
        made.renew(&names("a.b"), at(0)).unwrap();
        let first = made.clone();
        made.renew(&names("a.b"), at(0)).unwrap();
        assert_eq!(made, first, "nothing is done twice");
        made.renew(&names("c.d"), at(0)).unwrap();
        assert_eq!(made.served.as_ref().unwrap().names(), ["c.d", "a.b"]);
        assert_eq!(made.authorities, first.authorities);
        let second = made.clone();
        made.renew(&names("a.b"), at(0)).unwrap();
        assert_eq!(made, second, "replicas with different names agree on one certificate");
        let mut other = Made::default();
        other.renew(&names("a.b"), at(0)).unwrap();
        let mut mixed = Made { authorities: other.authorities.clone(), served: first.served.clone() };
        mixed.renew(&names("a.b"), at(0)).unwrap();
        assert_ne!(mixed.served, first.served);
        let mut broken =
            Made { authorities: vec![Certificate { chain: "nonsense".into(), key: String::new() }], served: None };
        broken.renew(&names("a.b"), at(0)).unwrap();
        assert_eq!(broken.authorities.len(), 1);
    }
}
