//! Numbers as Go writes them.

/// `strconv.FormatFloat(value, 'g', -1, 64)`: as few digits as distinguish the number from all others, with an
/// exponent below 1e-4 and from 1e6 on.
pub(super) fn shortest(value: f64) -> String {
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_go() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (2.5, "2.5"),
            (1_234_567.0, "1.234567e+06"),
            (123_456.789, "123456.789"),
            (1e21, "1e+21"),
            (1.5e-7, "1.5e-07"),
            (0.0001, "0.0001"),
            (-3.25, "-3.25"),
            (1e100, "1e+100"),
        ] {
            assert_eq!(shortest(value), text);
        }
    }
}
