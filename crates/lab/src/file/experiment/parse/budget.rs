//! `cpus` of a variant: a number of cores, or a burstable budget.

use madang_stack::CpuBudget;

use super::super::reader::Reader;

/// Reads the budget of a variant, if it has one.
pub fn cpus(reader: &mut Reader<'_>, name: &str) -> Option<CpuBudget> {
    let (budget, offset) = if reader.is_table("cpus") {
        let mut table = reader.table("cpus")?;
        let offset = table.offset();
        let mut number = |key| table.positive(key).or_else(|| table.missing(key));
        let numbers = (number("base"), number("burst"), number("credit_seconds"));
        table.finish(&[]);
        let (Some(base), Some(burst), Some(credit_seconds)) = numbers else { return None };
        (CpuBudget::burstable(base, burst, credit_seconds), offset)
    } else {
        let cores = reader.positive_at("cpus")?;
        (CpuBudget::fixed(cores.value), cores.offset)
    };
    if reader.has("url") {
        let why = "the server of a `url` is not ours to limit";
        reader.mistakes().add(offset, format!("`cpus` in [variants.{name}]: {why}"));
    }
    match budget {
        Ok(budget) => Some(budget),
        Err(why) => {
            reader.mistakes().add(offset, format!("`cpus` in [variants.{name}]: {why}"));
            None
        }
    }
}
