//! Experiments: interleaved rounds of load against variants of a service, with statistics.
