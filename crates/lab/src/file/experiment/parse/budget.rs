//! `cpus` of a variant: a number of cores, or a burstable budget.

use madang_stack::CpuBudget;

use super::super::reader::Reader;

pub(crate) fn cpus(reader: &mut Reader<'_>) -> Option<CpuBudget> {
    let budget = if reader.is_table("cpus") {
        let mut table = reader.table("cpus")?;
        let mut number = |key| table.positive(key).or_else(|| table.missing(key));
        let numbers = (number("base"), number("burst"), number("credit_seconds"));
        table.finish(&[]);
        let (Some(base), Some(burst), Some(credit_seconds)) = numbers else { return None };
        CpuBudget::burstable(base, burst, credit_seconds)
    } else {
        CpuBudget::fixed(reader.positive("cpus")?)
    };
    if reader.has("url") {
        reader.refuse_because("cpus", "the server of a `url` is not ours to limit");
    }
    budget.map_err(|why| reader.refuse_because("cpus", why)).ok()
}
