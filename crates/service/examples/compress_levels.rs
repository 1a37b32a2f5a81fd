//! Size, time and memory of each encoding at each level, for a body given as a file: what the
//! levels in `http/body.rs` were chosen by. One encoding a process, so that memory is its own.
//!
//! `cargo run --release -p madang-service --example compress_levels -- FILE br 6 20`

use std::io::Write as _;
use std::time::Instant;

fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, file, encoding, level, rest @ ..] = args.as_slice() else {
        return Err("usage: compress_levels FILE gzip|br|zstd LEVEL [WINDOW_BITS]".into());
    };
    let body = std::fs::read(file)?;
    let before = peak_kb();
    let started = Instant::now();
    let size = match encoding.as_str() {
        "gzip" => {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(level.parse()?));
            encoder.write_all(&body)?;
            encoder.finish()?.len()
        }
        "zstd" => zstd::bulk::compress(&body, level.parse()?)?.len(),
        _ => {
            let lgwin = rest.first().map_or(Ok(22), |w| w.parse())?;
            let params = brotli::enc::BrotliEncoderParams {
                quality: level.parse()?,
                lgwin,
                size_hint: body.len(),
                ..Default::default()
            };
            let mut out = Vec::new();
            brotli::BrotliCompress(&mut &body[..], &mut out, &params)?;
            out.len()
        }
    };
    println!(
        "{encoding} {level} {}: {} -> {size} bytes, {:.1} ms, {} kB more at peak",
        rest.first().map_or("", String::as_str),
        body.len(),
        started.elapsed().as_secs_f64() * 1e3,
        peak_kb() - before
    );
    Ok(())
}
