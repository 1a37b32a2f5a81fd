//! Targets of `scripts/fuzz`: each passes any bytes to parsers of this crate and panics if a property does not hold.
//! Unit tests replay the kept inputs.

use crate::container::Image;
use crate::control::{Event, decode_stop, encode_stop};
use crate::cpus::CpuList;
use crate::http::{Answer, Url};
use crate::{cgroup, http, machine, mounts, procfs};

/// Name of a directory in `fuzz/seeds`, and the function to fuzz.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[FuzzTarget] =
    &[("proc_files", proc_files), ("control_lines", control_lines), ("plain_answers", answers)];

/// Files of `/proc`, lists of CPUs, descriptions of images by a container tool.
fn proc_files(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(stat) = procfs::Stat::parse(&text) {
        let _ = (stat.rss_bytes(), stat.reaped());
    }
    let _ = (machine::cpu_line(&text), cgroup::member_of(&text), Image::parse(&text));
    for mount in text.lines().filter_map(mounts::Mount::parse) {
        let _ = mount.has_controller("cpu");
    }
    if let Ok(list) = text.parse::<CpuList>() {
        assert_eq!(list.to_string().parse(), Ok(list));
    }
}

/// Messages between owner and supervisor.
fn control_lines(data: &[u8]) {
    let Ok(line) = std::str::from_utf8(data) else { return };
    if let Some(event) = Event::decode(line) {
        assert_eq!(Event::decode(&event.encode()), Some(event));
    }
    if let Some(grace) = decode_stop(line) {
        assert_eq!(decode_stop(&encode_stop(grace)), Some(grace));
    }
}

/// Responses to a readiness probe, cut anywhere; and addresses.
fn answers(data: &[u8]) {
    let whole: Option<Answer> = http::received(&[data]).into_answer(true);
    let bytes: Vec<&[u8]> = data.chunks(1).collect();
    assert_eq!(http::received(&bytes).into_answer(true), whole);
    assert!(whole.is_none_or(|answer| answer.body.len() <= data.len()));
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(url) = Url::parse(text)
    {
        let again = Url::parse(&url.to_string()).expect("what is written can be read");
        assert_eq!((again.to_string(), again.port()), (url.to_string(), url.port()));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_the_fuzzer_has_found_stays_mended() {
        madang_testing::replay(super::TARGETS);
    }
}
