//! Parts of a stack.

use std::collections::BTreeMap;

/// All servers of a kind in a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum StackPart {
    Nodes,
    Nginx,
    Mariadb,
    /// Valkey or Redis.
    Valkey,
}

impl StackPart {
    /// In the order of tables.
    pub(crate) const ALL: [Self; 4] = [Self::Nodes, Self::Nginx, Self::Mariadb, Self::Valkey];

    /// Name in records and files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Nginx => "nginx",
            Self::Mariadb => "mariadb",
            Self::Valkey => "valkey",
        }
    }

    /// Part of a process, or the part with this name.
    pub(crate) fn of_process(process: &str) -> Option<Self> {
        let numbered = process.rsplit_once('-').filter(|(_, number)| number.parse::<u16>().is_ok());
        match (process, numbered.map(|(kind, _)| kind)) {
            (_, Some("node")) => Some(Self::Nodes),
            ("primary", _) | (_, Some("replica" | "galera")) => Some(Self::Mariadb),
            ("cache" | "counts", _) | (_, Some("cache")) => Some(Self::Valkey),
            _ => Self::ALL.into_iter().find(|part| part.name() == process),
        }
    }
}

/// Groups of processes with figures: each part and, if it has several processes, each of them.
pub(crate) fn groups(processes: &[(String, u32)]) -> BTreeMap<String, Vec<u32>> {
    let mut groups = BTreeMap::<String, Vec<u32>>::new();
    for part in StackPart::ALL {
        let own = processes.iter().filter(|(name, _)| StackPart::of_process(name) == Some(part));
        let pids: Vec<u32> = own.clone().map(|(_, pid)| *pid).collect();
        if pids.len() > 1 {
            groups.extend(own.map(|(name, pid)| (name.clone(), vec![*pid])));
        }
        if !pids.is_empty() {
            groups.insert(part.name().to_owned(), pids);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::metric::Metric;

    #[test]
    fn a_process_has_figures_of_its_own_where_its_part_has_several() {
        let names = ["nginx", "node-1", "node-2", "primary", "replica-1", "cache", "counts"];
        let processes: Vec<_> = names.iter().map(|name| (*name).to_owned()).zip(1..).collect();
        let groups = groups(&processes);
        assert_eq!((&groups["nodes"], &groups["node-2"]), (&vec![2, 3], &vec![3]));
        assert_eq!((&groups["mariadb"], &groups["primary"]), (&vec![4, 5], &vec![4]));
        assert_eq!((&groups["valkey"], &groups["nginx"]), (&vec![6, 7], &vec![1]));
        assert_eq!(groups.len(), names.len() + 3, "{groups:?}");
        assert_eq!(super::groups(&processes[..2]).len(), 2, "one node and nginx");
        for name in groups.keys() {
            let metric = Metric::CpuPerGoodRequest.of_group(name);
            assert_eq!(Metric::from_id(&metric.id()), Some(metric));
        }
        for wrong in ["cpu_per_good_request.node", "peak_memory.node-x", "goodput.node-1"] {
            assert_eq!(Metric::from_id(wrong), None, "{wrong}");
        }
    }
}
