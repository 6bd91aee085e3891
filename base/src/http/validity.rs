//! The validity of certificates.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rcgen::CertificateParams;
use x509_cert::time::Time;

/// Certificates are valid from shortly before their creation: clocks differ.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// The validity of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The start.
    pub not_before: Timestamp,
    /// The end.
    pub not_after: Timestamp,
}

impl Validity {
    /// Returns the validity of a new certificate.
    pub fn starting(now: Timestamp, duration: SignedDuration) -> Self {
        Self {
            not_before: now.checked_sub(CLOCK_SKEW).unwrap_or(now),
            not_after: now.checked_add(duration).unwrap_or(Timestamp::MAX),
        }
    }

    /// Returns a validity for certificates that are not renewed.
    pub fn unlimited() -> Self {
        let day =
            |year| jiff::civil::date(year, 1, 1).to_zoned(TimeZone::UTC).expect("a year of four digits").timestamp();
        Self { not_before: day(1975), not_after: day(4096) }
    }

    /// Returns the validity in the fields of a certificate.
    pub(super) fn of(fields: &x509_cert::time::Validity) -> Self {
        Self { not_before: timestamp(fields.not_before), not_after: timestamp(fields.not_after) }
    }

    /// Sets the validity of a certificate that is issued.
    pub fn set(self, params: &mut CertificateParams) {
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        let after_epoch =
            |moment: Timestamp| Duration::from_secs(u64::try_from(moment.as_second()).unwrap_or_default());
        params.not_before = epoch + after_epoch(self.not_before);
        params.not_after = epoch + after_epoch(self.not_after);
    }
}

fn timestamp(time: Time) -> Timestamp {
    let seconds = i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}
