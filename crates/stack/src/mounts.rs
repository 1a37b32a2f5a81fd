//! Mounts of cgroup file systems.

use std::path::PathBuf;

/// A line of `/proc/self/mountinfo`.
pub(crate) struct Mount<'m> {
    root: &'m str,
    pub point: PathBuf,
    pub kind: &'m str,
    options: &'m str,
}

impl<'m> Mount<'m> {
    /// `36 35 98:0 /root /point rw,noatime master:1 - cgroup name rw,cpu`
    pub(crate) fn parse(line: &'m str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (mount.next()?, mount.next()?);
        let mut system = system.split(' ');
        let kind = system.next()?;
        // Spaces in a path are octal escapes, which no cgroup mount has.
        Some(Self { root, point: point.into(), kind, options: system.nth(1)? })
    }

    /// Whether this is a version 1 mount with this controller.
    pub(crate) fn has_controller(&self, name: &str) -> bool {
        self.kind == "cgroup" && self.options.split(',').any(|option| option == name)
    }

    /// Directory of a cgroup in this mount; the mount point if the cgroup is outside of it.
    pub(crate) fn own(&self, path: &str) -> PathBuf {
        let root = self.root.trim_end_matches('/');
        let below = path.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let dir = self.point.join(below.unwrap_or("/").trim_start_matches('/'));
        if below.is_some() && dir.is_dir() { dir } else { self.point.clone() }
    }
}
