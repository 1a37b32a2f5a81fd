//! Assigns CPUs to server and generator.

use madang_stack::CpuList;

use crate::journal::record::{Failure, FailureKind};

pub(crate) struct Pinning {
    pub server: CpuList,
    pub generator: CpuList,
    /// Both use hardware threads of the same, only core.
    pub one_core: bool,
}

impl Pinning {
    pub(crate) fn choose() -> Result<Option<Self>, Failure> {
        let allowed = CpuList::allowed().map_err(|error| {
            let message = format!("cannot find out which CPUs may be used: {error}");
            Failure::new(FailureKind::Machine, message)
        })?;
        Ok(Self::split(&allowed.cores()))
    }

    /// The first half of the cores, rounded up, for the server, and the rest for the generator: hardware threads of one
    /// core would slow each other down. Splits a single core all the same. `None` with a single CPU.
    fn split(cores: &[Vec<usize>]) -> Option<Self> {
        let single: Vec<Vec<usize>>;
        let one_core = cores.len() == 1;
        let parts = if one_core {
            single = cores.concat().into_iter().map(|cpu| vec![cpu]).collect();
            &single
        } else {
            cores
        };
        let (server, generator) = parts.split_at(parts.len().div_ceil(2));
        let server = CpuList::new(server.concat())?;
        Some(Self { server, generator: CpuList::new(generator.concat())?, one_core })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_and_generator_share_no_core_unless_there_is_only_one() {
        let split = |cores: &[&[usize]]| {
            let cores: Vec<Vec<usize>> = cores.iter().map(|core| core.to_vec()).collect();
            let pinning = Pinning::split(&cores)?;
            Some((pinning.server.to_string(), pinning.generator.to_string(), pinning.one_core))
        };
        let expected = |server: &str, generator: &str, one_core| {
            Some((server.to_owned(), generator.to_owned(), one_core))
        };
        assert_eq!(split(&[&[0, 2], &[1, 3]]), expected("0,2", "1,3", false));
        assert_eq!(split(&[&[0], &[1], &[2]]), expected("0,1", "2", false));
        assert_eq!(split(&[&[0, 1]]), expected("0", "1", true));
        assert_eq!(split(&[&[0]]), None);
    }
}
