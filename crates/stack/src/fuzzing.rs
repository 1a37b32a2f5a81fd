//! Targets of the fuzzer: each takes any bytes, reads them as a parser of this crate does, and panics when a property
//! does not hold. Unit tests replay the kept inputs; otherwise they are there for `scripts/fuzz` alone.

use crate::container::Image;
use crate::control::{Event, Order};
use crate::cpus::CpuList;
use crate::http::{Answer, Url};
use crate::{cgroup, http, machine, mounts, procfs};

/// A name, that of a directory in `fuzz/seeds`, and what is done with an input.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// The targets by name: that of a directory in `fuzz/seeds`.
pub const TARGETS: &[FuzzTarget] =
    &[("proc_files", proc_files), ("control_lines", control_lines), ("plain_answers", answers)];

/// Files of `/proc`, a list of CPUs, what a container tool says of an image.
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

/// Lines between an owner and its supervisor.
fn control_lines(data: &[u8]) {
    let Ok(line) = std::str::from_utf8(data) else { return };
    if let Some(event) = Event::decode(line) {
        assert_eq!(Event::decode(&event.encode()), Some(event));
    }
    if let Some(order) = Order::decode(line) {
        assert_eq!(Order::decode(&order.encode()), Some(order));
    }
}

/// The answer of a server that is asked whether it is ready, wherever it is cut; and an address.
fn answers(data: &[u8]) {
    let whole: Option<Answer> = http::answer_of(&[data]);
    let bytes: Vec<&[u8]> = data.chunks(1).collect();
    assert_eq!(http::answer_of(&bytes), whole);
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
