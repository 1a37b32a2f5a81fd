//! What it costs to verify a token: the price of being logged in, paid by every request that says so.
//!
//! ```text
//! cargo run --release -p madang-service --example token_cost
//! ```

use madang_service::accounts::{TokenKey, Tokens};
use std::hint::black_box;
use std::time::{Duration, Instant};

const ROUNDS: u32 = 200_000;
const NOW: i64 = 1_800_000_000;

fn main() {
    let key = TokenKey::parse(&"5a".repeat(32)).expect("32 bytes in hex");
    let tokens = Tokens::new(&key, Duration::from_secs(86_400));
    let (token, _) = tokens.issue(123_456, NOW).expect("random bytes");
    let mut altered = token.clone();
    altered.replace_range(60..61, if &token[60..61] == "A" { "B" } else { "A" });
    for (name, token) in [("valid", &token), ("altered", &altered)] {
        let begun = Instant::now();
        for _ in 0..ROUNDS {
            let _ = black_box(tokens.verify(black_box(token), NOW));
        }
        let micros = begun.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS);
        println!("{name}: {micros:.2} µs");
    }
}
