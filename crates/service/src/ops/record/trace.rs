//! The `traceparent` header: the trace of a request (W3C Trace Context, 23 November 2021).
//!
//! An invalid header counts as absent, as the standard requires. `tracestate` is ignored: this service forwards
//! nothing.

use http::{HeaderMap, HeaderName};

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Length of a header of version 00 in bytes.
const LENGTH: usize = 55;

/// The trace of a request, and its position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    /// Never 0.
    pub(crate) id: u128,
    /// Span of the caller; 0 when the trace starts here.
    pub(crate) parent: u64,
    /// True if the caller records the trace.
    pub(crate) is_sampled: bool,
}

impl Trace {
    pub(crate) fn of(headers: &HeaderMap) -> Option<Trace> {
        let mut given = headers.get_all(&TRACEPARENT).iter();
        let first = given.next()?;
        // Several headers would be several traces.
        if given.next().is_some() { None } else { parse(first.as_bytes()) }
    }

    pub(crate) fn begin() -> Trace {
        Trace { id: fastrand::u128(1..), parent: 0, is_sampled: true }
    }

    /// The id in 32 hex digits.
    pub(crate) fn id_text(&self) -> String {
        format!("{:032x}", self.id)
    }
}

fn parse(text: &[u8]) -> Option<Trace> {
    let (known, rest) = text.split_at_checked(LENGTH)?;
    let version = hex(&known[..2])?;
    // Later versions may append fields after another dash. Version 255 is invalid.
    let ends =
        if version == 0 { rest.is_empty() } else { matches!(rest.first(), None | Some(b'-')) };
    let is_divided = [2, 35, 52].iter().all(|at| known[*at] == b'-');
    if version == 0xff || !ends || !is_divided {
        return None;
    }
    let (id, parent) = (hex(&known[3..35])?, u64::try_from(hex(&known[36..52])?).ok()?);
    let is_sampled = hex(&known[53..])? & 1 == 1;
    (id != 0 && parent != 0).then_some(Trace { id, parent, is_sampled })
}

/// The number in these lower-case digits.
fn hex(digits: &[u8]) -> Option<u128> {
    let mut bytes = [0; 16];
    let bytes = base16ct::lower::decode(digits, &mut bytes).ok()?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    const ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn a_traceparent_names_the_trace_the_caller_and_whether_it_records() {
        let trace = parse(format!("00-{ID}-00f067aa0ba902b7-01").as_bytes()).unwrap();
        assert_eq!(trace.id_text(), ID);
        assert_eq!((trace.parent, trace.is_sampled), (0x00f0_67aa_0ba9_02b7, true));
        let flags = |flags: &str| parse(format!("00-{ID}-00f067aa0ba902b7-{flags}").as_bytes());
        assert!(!flags("00").unwrap().is_sampled && !flags("02").unwrap().is_sampled);
        assert!(flags("03").unwrap().is_sampled, "unknown flags mean nothing");
        let later = format!("01-{ID}-00f067aa0ba902b7-01");
        assert!(parse(later.as_bytes()).is_some());
        assert!(parse(format!("{later}-more").as_bytes()).is_some());
    }

    #[test]
    fn what_breaks_the_format_is_no_traceparent() {
        let right = format!("00-{ID}-00f067aa0ba902b7-01");
        assert!(parse(right.as_bytes()).is_some());
        let upper = right.to_uppercase();
        let (no_id, no_parent) = (right.replace(ID, &"0".repeat(32)), "0".repeat(16));
        let no_parent = right.replace("00f067aa0ba902b7", &no_parent);
        let long = format!("{right}-more");
        let glued = format!("01{}x", &right[2..]);
        let no_version = format!("ff{}", &right[2..]);
        let divided = right.replace('-', "_");
        for wrong in [
            "",
            "00",
            &right[..54],
            &upper,
            &no_id,
            &no_parent,
            &long,
            &glued,
            &no_version,
            &divided,
        ] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
        for at in 0..right.len() {
            let mut broken = right.clone().into_bytes();
            broken[at] = b'g';
            assert_eq!(parse(&broken), None, "byte {at}");
        }
    }

    #[test]
    fn two_traceparents_are_none() {
        let one = HeaderValue::from_str(&format!("00-{ID}-00f067aa0ba902b7-01")).unwrap();
        let mut headers = HeaderMap::new();
        assert_eq!(Trace::of(&headers), None);
        headers.append("traceparent", one.clone());
        assert!(Trace::of(&headers).is_some());
        headers.append("traceparent", one);
        assert_eq!(Trace::of(&headers), None);
    }
}
