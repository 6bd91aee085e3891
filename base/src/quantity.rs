//! Quantities of Kubernetes, such as `500Mi` and `100m`, as numbers.

/// The number of a quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quantity {
    /// An integer.
    Whole(i64),
    /// A number with a fraction, or too large for an integer.
    Fraction(f64),
}

/// An invalid quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// There is no number at the beginning.
    #[error("{0:?} is not a quantity: it needs a number, such as in `500Mi` and `100m`")]
    NoNumber(String),
    /// The suffix is unknown.
    #[error(
        "{text:?} is not a quantity: there is no suffix {suffix:?} (there are n u m k M G T P E, Ki Mi Gi Ti Pi Ei, and exponents)"
    )]
    Suffix {
        /// The whole text.
        text: String,
        /// The suffix.
        suffix: String,
    },
}

/// Number of digits of exact arithmetic; longer numbers are as exact as a float.
const EXACT_DIGITS: usize = 18;

/// The factor of a suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Factor {
    /// A power of ten.
    Ten(i32),
    /// A power of two.
    Two(u32),
}

/// Beyond this exponent, every number is zero or infinite; sums of exponents within it do not overflow.
const MAX_EXPONENT: i32 = 100_000;

impl Factor {
    /// Returns the factor of a suffix or an exponent; an empty one is a factor of one.
    pub fn of_suffix(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "" => Self::Ten(0),
            "n" => Self::Ten(-9),
            "u" => Self::Ten(-6),
            "m" => Self::Ten(-3),
            "k" => Self::Ten(3),
            "M" => Self::Ten(6),
            "G" => Self::Ten(9),
            "T" => Self::Ten(12),
            "P" => Self::Ten(15),
            "E" => Self::Ten(18),
            "Ki" => Self::Two(10),
            "Mi" => Self::Two(20),
            "Gi" => Self::Two(30),
            "Ti" => Self::Two(40),
            "Pi" => Self::Two(50),
            "Ei" => Self::Two(60),
            _ => {
                let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
                Self::Ten(exponent.clamp(-MAX_EXPONENT, MAX_EXPONENT))
            }
        })
    }
}

impl Quantity {
    /// Returns the number of a text: digits with a fraction, and a suffix or an exponent.
    ///
    /// # Errors
    /// If the text has no number, or an unknown suffix.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let (number, suffix) = unsigned.split_at(unsigned.find(|c| !is_number(c)).unwrap_or(unsigned.len()));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(QuantityError::NoNumber(text.to_owned()));
        }
        let factor = Factor::of_suffix(suffix)
            .ok_or_else(|| QuantityError::Suffix { text: text.to_owned(), suffix: suffix.to_owned() })?;
        let value = multiply(whole, fraction, factor);
        Ok(if text.starts_with('-') { value.negated() } else { value })
    }

    /// Returns the number as a float, which may lose digits.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Whole(number) => number as f64,
            Self::Fraction(number) => number,
        }
    }

    fn negated(self) -> Self {
        match self {
            Self::Whole(number) => Self::Whole(-number),
            Self::Fraction(number) => Self::Fraction(-number),
        }
    }
}

/// Returns the canonical form of API servers: without a fraction, with the largest suffix of its family that leaves an
/// integer.
///
/// Numbers that are too long for the arithmetic stay unchanged. The rules are those of `resource.Quantity` of
/// apimachinery.
///
/// # Errors
/// If the text is not a quantity.
pub fn canonical(text: &str) -> Result<String, QuantityError> {
    Quantity::parse(text)?;
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (number, suffix) =
        unsigned.split_at(unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len()));
    let Some(nanos) = Factor::of_suffix(suffix).and_then(|factor| nanos(number, factor)) else {
        return Ok(text.to_owned());
    };
    let family = match suffix {
        _ if suffix.ends_with('i') && nanos >= 1024 * NANOS => Family::Binary,
        _ if suffix.len() > 1 && suffix.starts_with(['e', 'E']) && !suffix.ends_with('i') => Family::Exponent,
        _ => Family::Decimal,
    };
    let sign = if text.starts_with('-') && nanos > 0 { "-" } else { "" };
    Ok(format!("{sign}{}", family.print(nanos)))
}

/// The smallest unit is a billionth.
const NANOS: u128 = 1_000_000_000;

/// Families of suffixes.
enum Family {
    Decimal,
    Exponent,
    Binary,
}

impl Family {
    fn print(&self, nanos: u128) -> String {
        if let Self::Binary = self {
            let (mut number, mut power) = (nanos.div_ceil(NANOS), 0);
            while number.is_multiple_of(1024) && power < 6 {
                (number, power) = (number / 1024, power + 1);
            }
            return format!("{number}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power]);
        }
        let (mut number, mut power) = (nanos, 0);
        while number > 0 && number.is_multiple_of(1000) && power < 9 {
            (number, power) = (number / 1000, power + 1);
        }
        match self {
            _ if number == 0 => "0".to_owned(),
            Self::Exponent if power != 3 => format!("{number}e{}", power as i32 * 3 - 9),
            _ => format!("{number}{}", ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][power]),
        }
    }
}

/// Returns an unsigned number in billionths, rounded up, if it is not too long.
fn nanos(number: &str, factor: Factor) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("0{whole}{fraction}");
    let (mantissa, shift) = match factor {
        Factor::Ten(exponent) => (digits.parse::<u128>().ok()?, exponent + 9 - fraction.len() as i32),
        Factor::Two(exponent) => (digits.parse::<u128>().ok()?.checked_mul(1 << exponent)?, 9 - fraction.len() as i32),
    };
    match (10_u128.checked_pow(shift.unsigned_abs()), shift) {
        (Some(power), 0..) => mantissa.checked_mul(power),
        (Some(power), _) => Some(mantissa.div_ceil(power)),
        (None, _) if mantissa == 0 => Some(0),
        (None, _) => None,
    }
}

fn multiply(whole: &str, fraction: &str, factor: Factor) -> Quantity {
    let fraction = fraction.trim_end_matches('0');
    exactly(whole, fraction, factor).unwrap_or_else(|| Quantity::Fraction(roughly(whole, fraction, factor)))
}

/// Computes with integers, if the result is one.
fn exactly(whole: &str, fraction: &str, factor: Factor) -> Option<Quantity> {
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.len() > EXACT_DIGITS || fraction.len() > EXACT_DIGITS {
        return None;
    }
    let mantissa: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let (multiplied, shift) = match factor {
        Factor::Ten(exponent) => (mantissa, exponent - fraction.len() as i32),
        Factor::Two(exponent) => (mantissa << exponent, -(fraction.len() as i32)),
    };
    let power = 10_i128.checked_pow(shift.unsigned_abs())?;
    let exact = match shift {
        0.. => multiplied.checked_mul(power)?,
        _ if multiplied % power == 0 => multiplied / power,
        _ => return None,
    };
    i64::try_from(exact).ok().map(Quantity::Whole)
}

fn roughly(whole: &str, fraction: &str, factor: Factor) -> f64 {
    let (exponent, power) = match factor {
        Factor::Ten(exponent) => (exponent, 1.0),
        Factor::Two(exponent) => (0, (1_u64 << exponent) as f64),
    };
    // With the exponent in the text, the number is rounded once, not twice.
    let number: f64 = format!("0{whole}.{fraction}0e{exponent}").parse().expect("the parts are digits");
    number * power
}

#[cfg(test)]
mod tests {
    use super::*;
    use Quantity::{Fraction, Whole};

    #[test]
    fn suffixes_multiply() {
        let parsed = |text: &str| Quantity::parse(text).unwrap();
        assert_eq!(parsed("500Mi"), Whole(500 << 20));
        assert_eq!(parsed("100m"), Fraction(0.1));
        assert_eq!(parsed("2000m"), Whole(2));
        assert_eq!(parsed("1e3"), Whole(1000));
        assert_eq!(parsed("1E3"), Whole(1000));
        assert_eq!(parsed("12e-1"), Fraction(1.2));
        assert_eq!(parsed("1E"), Whole(1_000_000_000_000_000_000));
        assert_eq!(parsed("-1.5Gi"), Whole(-1_610_612_736));
        assert_eq!(parsed("+.5k"), Whole(500));
        assert_eq!(parsed("5."), Whole(5));
        assert_eq!(parsed("0"), Whole(0));
        assert_eq!(parsed("1.1Ki"), Fraction(1126.4));
        assert_eq!(parsed("3n"), Fraction(3e-9));
        assert_eq!(parsed("7u"), Fraction(7e-6));
    }

    #[test]
    fn numbers_that_are_too_large_become_floats() {
        assert_eq!(Quantity::parse("16Ei").unwrap(), Fraction(18_446_744_073_709_551_616.0));
        assert_eq!(Quantity::parse("123456789012345678901").unwrap(), Fraction(123_456_789_012_345_680_000.0));
        assert_eq!(Quantity::parse("1e99999").unwrap(), Fraction(f64::INFINITY));
        assert_eq!(Quantity::parse("1e-99999").unwrap(), Fraction(0.0));
    }

    #[test]
    fn servers_show_quantities_in_one_form() {
        let shown = |text: &str| canonical(text).unwrap();
        for (text, form) in [
            ("0.1", "100m"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("1.1Ki", "1127"),
            ("1000", "1k"),
            ("1", "1"),
            ("0", "0"),
            ("0Gi", "0"),
            ("-0", "0"),
            ("+5", "5"),
            ("-2000M", "-2G"),
            ("1e3", "1e3"),
            ("10e3", "10e3"),
            ("1e2", "100"),
            ("0.0000000001", "1n"),
            ("5.", "5"),
            (".5", "500m"),
            ("1E", "1E"),
            ("2Ei", "2Ei"),
            ("123456789012345678901234567890123456789k", "123456789012345678901234567890123456789k"),
        ] {
            assert_eq!(shown(text), form, "{text}");
        }
        assert!(canonical("1K").is_err());
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "-", ".", "Mi", "1.2.3", " 1"] {
            assert!(matches!(Quantity::parse(text), Err(QuantityError::NoNumber(_))), "{text:?}");
        }
        for text in ["1K", "1mi", "1 Mi", "1e", "1ex", "1--1", "1e1.5", "1Mi "] {
            assert!(matches!(Quantity::parse(text), Err(QuantityError::Suffix { .. })), "{text:?}");
        }
    }
}
