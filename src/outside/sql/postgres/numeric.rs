//! The binary form of `numeric`: digits of base 10,000.

/// The values of the sign field: of negative numbers, NaN, and infinities.
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const INFINITY: u16 = 0xD000;
const NEGATIVE_INFINITY: u16 = 0xF000;

/// Returns the text of a number, with as many digits after the point as it has in the database.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    let words: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    let (head, digits) = words.split_at_checked(4)?;
    let (weight, sign, scale) = (i32::from(head[1].cast_signed()), head[2], usize::from(head[3]));
    match sign {
        NAN => return Some("NaN".to_owned()),
        INFINITY => return Some("Infinity".to_owned()),
        NEGATIVE_INFINITY => return Some("-Infinity".to_owned()),
        _ => {}
    }
    // The digit of a place; the place 0 is that before the point.
    let digit =
        |place: i32| usize::try_from(weight - place).ok().and_then(|index| digits.get(index)).copied().unwrap_or(0);
    let mut text = if sign == NEGATIVE { "-".to_owned() } else { String::new() };
    let joined = |places: &mut dyn Iterator<Item = i32>| {
        places.map(|place| format!("{:04}", digit(place))).collect::<Vec<_>>().concat()
    };
    let whole = joined(&mut (0..=weight.max(0)).rev());
    let whole = whole.trim_start_matches('0');
    text.push_str(if whole.is_empty() { "0" } else { whole });
    if scale > 0 {
        let places = i32::try_from(scale.div_ceil(4)).ok()?;
        let fraction = joined(&mut (1..=places).map(|place| -place));
        text.push('.');
        text.push_str(&fraction[..scale]);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(weight: i16, sign: u16, scale: u16, digits: &[u16]) -> String {
        let count = u16::try_from(digits.len()).unwrap();
        let words = [count, weight.cast_unsigned(), sign, scale].into_iter().chain(digits.iter().copied());
        text(&words.flat_map(u16::to_be_bytes).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn numbers_have_their_digits() {
        assert_eq!(number(0, 0, 0, &[]), "0");
        assert_eq!(number(0, 0, 2, &[12, 3400]), "12.34");
        assert_eq!(number(0, NEGATIVE, 2, &[12, 3450]), "-12.34");
        assert_eq!(number(2, 0, 0, &[1]), "100000000");
        assert_eq!(number(-1, 0, 4, &[5]), "0.0005");
        assert_eq!(number(-2, 0, 8, &[5]), "0.00000005");
        assert_eq!(number(1, 0, 3, &[1, 2, 3000]), "10002.300");
        assert_eq!(number(0, NAN, 0, &[]), "NaN");
    }
}
