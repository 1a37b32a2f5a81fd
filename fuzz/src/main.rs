//! All targets in one program, so that the workspace is linked once; `FUZZ_TARGET` names the one to run, and
//! without it their names are listed.

#![no_main]

mod import;

use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

type Target = (&'static str, fn(&[u8]));

fn all() -> impl Iterator<Item = &'static Target> {
    [
        madang_cache::fuzzing::TARGETS,
        madang_guard::fuzzing::TARGETS,
        madang_lab::fuzzing::TARGETS,
        madang_load::fuzzing::TARGETS,
        madang_path::fuzzing::TARGETS,
        madang_service::fuzzing::TARGETS,
        madang_stack::fuzzing::TARGETS,
        import::markets::fuzzing::TARGETS,
    ]
    .into_iter()
    .flatten()
}

static CHOSEN: OnceLock<fn(&[u8])> = OnceLock::new();

fuzz_target!(
    init: {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        match all().find(|(known, _)| *known == name) {
            Some((_, target)) => drop(CHOSEN.set(*target)),
            None => {
                all().for_each(|(name, _)| println!("{name}"));
                std::process::exit(0);
            }
        }
    },
    |data: &[u8]| {
        if let Some(target) = CHOSEN.get() {
            target(data);
        }
    }
);
