//! Puts the bundled samples into the program, so that `serve --demo` needs no files beside it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

const MARKETS: &str = "traditional_markets_standard_20241104_cp949.csv";

fn main() -> io::Result<()> {
    let data =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../data");
    let root = data.join("tracks");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files: Vec<PathBuf> =
        fs::read_dir(&root)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|e| e == "gpx" || e == "geojson"));
    // Sorted, so that the same sample has the same id in every demo store.
    files.sort();
    let mut code = String::from(
        "/// Name and content of each bundled track.\npub static TRACKS: &[(&str, &[u8])] = &[\n",
    );
    for path in &files {
        let path = path.canonicalize()?;
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let _ = writeln!(code, "    ({name:?}, include_bytes!({:?})),", path.display());
    }
    code.push_str("];\n");
    let markets = data.join("markets").join(MARKETS).canonicalize()?;
    println!("cargo::rerun-if-changed={}", markets.display());
    let _ = writeln!(
        code,
        "/// Name and content of the bundled markets.\npub static MARKETS: (&str, &[u8]) = ({MARKETS:?}, include_bytes!({:?}));",
        markets.display()
    );
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    fs::write(Path::new(&out).join("samples.rs"), code)
}
