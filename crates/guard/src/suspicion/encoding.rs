//! Hexadecimal digits.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

pub(super) fn hex_digits(value: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(value.to_be_bytes()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    digits
}
