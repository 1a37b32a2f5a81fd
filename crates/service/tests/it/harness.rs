//! A store on disk, tracks to put into it, and a child process to kill.

use madang_path::{Path, Point};
use madang_service::app::App;
use madang_service::config::{Origin, Settings, Sources};
use madang_service::idempotency::Once;
use madang_service::store::ChangeError;
use madang_service::tracks::{NewTrack, Stored, TrackStore, Tracks};
use std::path::Path as FilePath;

/// Settings with this data directory and these overrides.
pub fn settings(dir: &FilePath, overrides: &[(&str, &str)]) -> Settings {
    let mut sources = Sources::new();
    let flag = || Origin::Flag("test".to_owned());
    sources.set("data.dir", &dir.to_string_lossy(), flag()).unwrap();
    for (key, value) in overrides {
        sources.set(key, value, flag()).unwrap();
    }
    sources.resolve().unwrap()
}

/// The application over a store in this directory.
pub fn open(dir: &FilePath) -> App {
    App::open(&settings(dir, &[])).unwrap()
}

/// A track that differs from that of any other number.
pub fn track(number: u32) -> NewTrack {
    let lat = 37.0 + f64::from(number) * 1e-4;
    let point = |lon: f64| Point { lat, lon, ele: None };
    let path = Path::new(vec![vec![point(127.0), point(127.001), point(127.002)]]).unwrap();
    NewTrack { name: format!("track {number}"), rate: 0.0, path, owner: None }
}

/// Stores it as a request does.
pub async fn add(tracks: &Tracks, track: NewTrack) -> Result<Stored, ChangeError> {
    let prepared = TrackStore::prepare(track);
    Ok(tracks.store().create(prepared, Once::default()).await?.outcome)
}

/// A runtime for one test.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
