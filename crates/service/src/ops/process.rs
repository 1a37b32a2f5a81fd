//! Metrics of this process for Prometheus, read from `/proc` at each scrape.

use crate::exposition::Figures;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::gauge::ConstGauge;
use std::time::{SystemTime, UNIX_EPOCH};

/// Metrics with the names that Prometheus client libraries share.
#[derive(Debug)]
pub(crate) struct Process {
    started: f64,
}

impl Process {
    /// The current process, started now.
    pub(crate) fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: now.as_secs_f64() }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let mut gauge = |name: &str, help: &str, value: f64| {
            let metric = ConstGauge::new(value);
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        if let Some(pages) = resident_pages() {
            gauge("process_resident_memory_bytes", "Resident memory", pages * page_size())?;
        }
        if let Ok(entries) = std::fs::read_dir("/proc/self/fd") {
            let open = u32::try_from(entries.count()).unwrap_or(u32::MAX);
            gauge("process_open_fds", "Open file descriptors", f64::from(open))?;
        }
        if let Some(most) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
            #[allow(
                clippy::cast_precision_loss,
                reason = "a limit on descriptors is far below 2^53"
            )]
            gauge("process_max_fds", "Maximum number of open file descriptors", most as f64)?;
        }
        gauge("process_start_time_seconds", "Start time in seconds since 1970", self.started)?;
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        #[allow(clippy::cast_precision_loss, reason = "CPU seconds are far below 2^53")]
        let cpu = used.tv_sec as f64 + used.tv_nsec as f64 / 1e9;
        Figures(encoder).counter("process_cpu_seconds", "CPU time, user and system", cpu)
    }
}

fn resident_pages() -> Option<f64> {
    std::fs::read_to_string("/proc/self/statm").ok()?.split_whitespace().nth(1)?.parse().ok()
}

fn page_size() -> f64 {
    f64::from(u32::try_from(rustix::param::page_size()).unwrap_or(4096))
}
