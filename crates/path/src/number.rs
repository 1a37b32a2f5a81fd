//! Decimal numbers, written without the general formatter.
//!
//! A long path has tens of thousands of coordinates, and `format!` costs several times the rest of the
//! work. The values are fixed-point by nature: 7 decimals of a degree are 11 mm on the equator.

/// Units of the seventh decimal in a degree.
pub(crate) const UNITS_PER_DEGREE: f64 = 1e7;

/// Appends up to 7 decimals, without trailing zeros. `degrees` is a coordinate of a valid point.
pub(crate) fn push_degrees(degrees: f64, out: &mut Vec<u8>) {
    push_fixed::<7>(nearest(degrees * UNITS_PER_DEGREE), out);
}

/// Appends up to 2 decimals, without trailing zeros. `metres` is the elevation of a valid point.
pub(crate) fn push_metres(metres: f64, out: &mut Vec<u8>) {
    push_fixed::<2>(nearest(metres * 100.0), out);
}

/// The nearest whole number, halves away from zero. Without SSE 4.1, the default of x86-64 builds,
/// `f64::round` is a call into the C library; this is two instructions.
pub(crate) fn nearest(value: f64) -> i64 {
    (value + 0.5f64.copysign(value)) as i64
}

/// Appends `units` / 10^DECIMALS as a JSON number.
fn push_fixed<const DECIMALS: usize>(units: i64, out: &mut Vec<u8>) {
    const { assert!(DECIMALS <= 9, "the decimals are kept in 32 bits") };
    // A u64 has at most 20 digits; one place for the point, one for the sign.
    let mut text = [0u8; 22];
    let mut at = text.len();
    let unit = 10u64.pow(DECIMALS as u32);
    let (mut whole, mut decimals) =
        (units.unsigned_abs() / unit, (units.unsigned_abs() % unit) as u32);
    if decimals != 0 {
        let mut places = DECIMALS;
        while decimals.is_multiple_of(10) {
            decimals /= 10;
            places -= 1;
        }
        for _ in 0..places {
            at -= 1;
            text[at] = b'0' + (decimals % 10) as u8;
            decimals /= 10;
        }
        at -= 1;
        text[at] = b'.';
    }
    loop {
        at -= 1;
        text[at] = b'0' + (whole % 10) as u8;
        whole /= 10;
        if whole == 0 {
            break;
        }
    }
    if units < 0 {
        at -= 1;
        text[at] = b'-';
    }
    out.extend_from_slice(&text[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn degrees(value: f64) -> String {
        let mut out = Vec::new();
        push_degrees(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_rounded_and_lose_their_trailing_zeros() {
        let cases = [
            (0.0, "0"),
            (-0.0, "0"),
            (0.000_000_04, "0"),
            (-0.000_000_04, "0"),
            (0.000_000_1, "0.0000001"),
            (-0.000_000_06, "-0.0000001"),
            (37.0, "37"),
            (37.5, "37.5"),
            (126.978_888_85, "126.9788889"),
            (-179.999_999_99, "-180"),
            (9.999_999_99, "10"),
            (100.0, "100"),
        ];
        for (value, text) in cases {
            assert_eq!(degrees(value), text);
        }
        let mut out = Vec::new();
        push_metres(-32_768.006, &mut out);
        assert_eq!(out, b"-32768.01");
        for extreme in [i64::MIN, i64::MAX] {
            out.clear();
            push_fixed::<7>(extreme, &mut out);
            assert!(out.ends_with(if extreme < 0 { b"4775808" } else { b"4775807" }));
        }
    }

    proptest! {
        #[test]
        fn a_number_parses_back_to_the_nearest_seventh_decimal(value in -180.0..180.0f64) {
            let back: f64 = degrees(value).parse().unwrap();
            prop_assert!((back - value).abs() <= 0.500_001e-7);
        }
    }
}
