//! Quantities, with the exact arithmetic of `resource.Quantity`.

use std::cmp::Ordering;

use kopfd_base::quantity::Factor;

use crate::cel::error::{Error, failed};

/// A quantity: an integer, and the exponent of its power of ten.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount {
    unscaled: i128,
    scale: i32,
    /// Whether Kubernetes stores it in 64 bits. Only such quantities count as integers.
    is_small: bool,
}

/// The smallest exponent: billionths.
const SMALLEST: i32 = -9;
/// Numbers with up to this many digits are stored in 64 bits.
const MAX_DIGITS: usize = 18;

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.compare(*other) == Ordering::Equal
    }
}

impl Amount {
    /// Returns an integer as a quantity.
    pub(in crate::cel) fn of(number: i64) -> Self {
        Self { unscaled: i128::from(number), scale: 0, is_small: true }
    }

    /// Returns 1, 0 or -1.
    pub(in crate::cel) fn sign(self) -> i64 {
        self.unscaled.signum() as i64
    }

    pub(in crate::cel) fn parse(text: &str) -> Result<Self, Error> {
        let malformed =
            || failed("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        if unsigned.is_empty() {
            return Err(malformed());
        }
        let digits_end = unsigned.find(|c: char| !c.is_ascii_digit()).unwrap_or(unsigned.len());
        let (whole, rest) = unsigned.split_at(digits_end);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            None => ("", rest),
            Some(after) => after.split_at(after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len())),
        };
        let letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        if !letters.strip_prefix(['+', '-']).unwrap_or(letters).bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(malformed());
        }
        if whole.is_empty() && fraction.is_empty() {
            return Err(failed("unable to parse numeric part of quantity"));
        }
        let factor = Factor::of_suffix(suffix).ok_or_else(|| failed("unable to parse quantity's suffix"))?;
        let amount = Self::of_digits(whole.trim_start_matches('0'), fraction, factor)?;
        Ok(if text.starts_with('-') { amount.negated() } else { amount })
    }

    fn of_digits(whole: &str, fraction: &str, factor: Factor) -> Result<Self, Error> {
        let too_large = || failed("the quantity is too large to be computed with");
        let mantissa: i128 = format!("0{whole}{fraction}").parse().map_err(|_| too_large())?;
        let digits = whole.len().max(1) + fraction.len();
        let length = fraction.len() as i32;
        let (unscaled, scale, is_small) = match factor {
            Factor::Ten(exponent) => {
                (mantissa, exponent - length, digits <= MAX_DIGITS && exponent - length >= SMALLEST)
            }
            Factor::Two(exponent) => {
                let unscaled = mantissa.checked_mul(1 << exponent).ok_or_else(too_large)?;
                let precision = 15 - whole.len().max(1) as i32 - (exponent as f32 * 3.0 / 10.0) as i32 - 1;
                (unscaled, -length, fraction.is_empty() && precision >= 0)
            }
        };
        let amount = Self { unscaled, scale, is_small };
        let amount = if is_small { amount } else { amount.rounded() };
        let limit = Self { unscaled: i128::from(i64::MAX), scale: 0, is_small: false };
        let is_too_much = matches!(factor, Factor::Two(_)) && amount.compare(limit).is_gt();
        Ok(if is_too_much { limit } else { amount })
    }

    /// Rounds parts below a billionth up to one.
    fn rounded(self) -> Self {
        if self.scale >= SMALLEST {
            return self;
        }
        let unscaled = match 10_i128.checked_pow((SMALLEST - self.scale) as u32) {
            Some(power) => self.unscaled / power + i128::from(self.unscaled % power != 0),
            None => i128::from(self.unscaled != 0),
        };
        Self { unscaled, scale: SMALLEST, ..self }
    }

    pub(in crate::cel) fn negated(self) -> Self {
        Self { unscaled: -self.unscaled, ..self }
    }

    pub(in crate::cel) fn whole(self) -> Option<i64> {
        let power = 10_i128.checked_pow(u32::try_from(self.scale).ok()?)?;
        self.is_small.then(|| i64::try_from(self.unscaled.checked_mul(power)?).ok()).flatten()
    }

    pub(in crate::cel) fn as_f64(self) -> f64 {
        self.unscaled as f64 * 10_f64.powi(self.scale)
    }

    /// Returns both numbers with the same power of ten.
    fn aligned(self, other: Self) -> Option<(i128, i128, i32)> {
        let scale = self.scale.min(other.scale);
        let with_scale = |amount: Self| {
            if amount.unscaled == 0 {
                return Some(0);
            }
            amount.unscaled.checked_mul(10_i128.checked_pow((amount.scale - scale) as u32)?)
        };
        Some((with_scale(self)?, with_scale(other)?, scale))
    }

    pub(in crate::cel) fn compare(self, other: Self) -> Ordering {
        match self.aligned(other) {
            Some((one, other, _)) => one.cmp(&other),
            None => self.as_f64().total_cmp(&other.as_f64()),
        }
    }

    pub(in crate::cel) fn add(self, other: Self) -> Result<Self, Error> {
        let too_large = || failed("the quantity is too large to be computed with");
        let (one, two, scale) = self.aligned(other).ok_or_else(too_large)?;
        let unscaled = one.checked_add(two).ok_or_else(too_large)?;
        Ok(Self { unscaled, scale, is_small: self.is_small && other.is_small && i64::try_from(unscaled).is_ok() })
    }
}
