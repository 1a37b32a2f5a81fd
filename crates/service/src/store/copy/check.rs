//! Comparison of both sides, row by row in the order of their keys.

use super::source::Source;
use super::tables::Table;
use super::target::Target;
use super::{Copied, CopyError, Progress, key};
use crate::store::Result;
use std::time::Instant;

/// Rows between two reports of progress.
const EVERY: u64 = 4096;

/// Derived columns and rows: a description of wrong ones, and a query for their number.
const DERIVED: [(&str, &str); 5] = [
    (
        "articles whose like_count is not the number of their likes",
        "SELECT count(*) FROM articles a LEFT JOIN
           (SELECT article_id, count(*) n FROM article_likes GROUP BY article_id) l ON l.article_id = a.id
         WHERE a.like_count <> coalesce(l.n, 0)",
    ),
    (
        "articles whose comment_count is not the number of their comments",
        "SELECT count(*) FROM articles a LEFT JOIN
           (SELECT article_id, count(*) n FROM article_comments GROUP BY article_id) c ON c.article_id = a.id
         WHERE a.comment_count <> coalesce(c.n, 0)",
    ),
    (
        "users whose schedule_counts is not the number of their schedules",
        "SELECT count(*) FROM schedule_counts c LEFT JOIN
           (SELECT user_id, count(*) n FROM schedules GROUP BY user_id) s ON s.user_id = c.user_id
         WHERE c.n <> coalesce(s.n, 0)",
    ),
    (
        "markets whose views are not the settled ones and those of today",
        "SELECT count(*) FROM market_view_counts c LEFT JOIN
           (SELECT market_id, count(*) n FROM market_views GROUP BY market_id) v ON v.market_id = c.market_id
         WHERE c.views <> c.settled + coalesce(v.n, 0)",
    ),
    (
        "tracks without a path or a start",
        "SELECT count(*) FROM tracks t LEFT JOIN track_paths p ON p.track_id = t.id
           LEFT JOIN track_starts s ON s.id = t.id WHERE p.track_id IS NULL OR s.id IS NULL",
    ),
];

/// Compares all rows of these tables, with bounded memory, and notes the time of each.
pub(super) fn compare(
    source: &Source,
    target: &Target,
    tables: &[Table],
    copied: &mut [Copied],
    watch: &mut impl FnMut(Progress<'_>),
) -> Result<(), CopyError> {
    for (table, copied) in tables.iter().zip(copied) {
        let began = Instant::now();
        watch(Progress::Compare(&table.name, copied.rows));
        compare_table(source, target, table, watch)?;
        copied.comparing = began.elapsed();
    }
    Ok(())
}

fn compare_table(
    source: &Source,
    target: &Target,
    table: &Table,
    watch: &mut impl FnMut(Progress<'_>),
) -> Result<(), CopyError> {
    let (columns, key) = (Table::list(&table.columns), Table::list(&table.key));
    let query = format!("SELECT {columns} FROM `{}` ORDER BY {key}", table.name);
    let differs = |what: String| {
        CopyError::Differs(format!(
            "the copy is not the same as the original: {}: {what}",
            table.name
        ))
    };
    target.session.stream(&query, |found| {
        let mut seen = 0_u64;
        source.each(table, None, |row| {
            let shown = || key::shown(&row.key);
            let Some(other) = found.next().transpose()? else {
                return Err(differs(format!("row ({}) is missing", shown())));
            };
            let other = other.unwrap();
            if let Some(at) =
                (0..table.columns.len()).find(|at| other.get(*at) != row.values.get(*at))
            {
                let column = &table.columns[at];
                return Err(differs(format!("row ({}) differs in {column}", shown())));
            }
            seen += 1;
            if seen.is_multiple_of(EVERY) {
                watch(Progress::Rows(EVERY));
            }
            Ok(())
        })?;
        watch(Progress::Rows(seen % EVERY));
        match found.next().transpose()? {
            None => Ok(()),
            Some(_) => Err(differs(format!("it has more than {seen} rows"))),
        }
    })
}

/// Faults of derived rows. Both sides have the same rows, so the source has them too.
pub(super) fn warnings(target: &Target) -> Result<Vec<String>> {
    let wrong = derived(|query| Ok(target.session.number(query)?.unwrap_or(0)))?;
    Ok(wrong.into_iter().map(|what| format!("{what}, in the source as well")).collect())
}

/// Faults of derived rows; `count` runs a query for one number.
pub(crate) fn derived(mut count: impl FnMut(&str) -> Result<i64>) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for (what, query) in DERIVED {
        let rows = count(query)?;
        if rows > 0 {
            wrong.push(format!("{rows} {what}"));
        }
    }
    Ok(wrong)
}
