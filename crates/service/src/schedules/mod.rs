//! Schedules: what a user plans, where and when; at most so many of them.
