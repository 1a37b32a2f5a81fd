//! Positions in a TypeScript file of the parts of its JavaScript.

use oxc_codegen::CodegenReturn;

/// Line, then column, from 0.
type LineColumn = (u32, u32);

/// Pairs of a position in the running text and in the file, sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Positions(Vec<(LineColumn, LineColumn)>);

impl Positions {
    pub(super) fn from_codegen(built: &CodegenReturn<'_>) -> Self {
        let mut places = Vec::new();
        if let Some(map) = &built.map {
            places.extend(map.get_tokens().map(|token| {
                let runs = (token.get_dst_line(), token.get_dst_col());
                (runs, (token.get_src_line(), token.get_src_col()))
            }));
        }
        places.sort_unstable();
        Self(places)
    }

    /// The line and column in the file, both from 1, as are the arguments.
    pub(crate) fn written(&self, line: u32, column: u32) -> Option<(u32, u32)> {
        let runs = (line.checked_sub(1)?, column.saturating_sub(1));
        let next = self.0.partition_point(|(known, _)| *known <= runs);
        let (_, (line, column)) = self.0.get(next.checked_sub(1)?)?;
        Some((line + 1, column + 1))
    }
}

/// Replaces positions after addresses of files (`file:///a.ts:3:7`) by those that `written` returns.
pub(crate) fn relocate(
    text: &str,
    written: impl Fn(&str, u32, u32) -> Option<(u32, u32)>,
) -> String {
    let mut relocated = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("file://") {
        let (before, found) = rest.split_at(at);
        relocated.push_str(before);
        let end = found.find([')', '\n']).unwrap_or(found.len());
        let (place, after) = found.split_at(end);
        let mut parts = place.rsplitn(3, ':');
        let (column, line, path) = (parts.next(), parts.next(), parts.next());
        let number = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        let moved = match (
            path.and_then(|path| path.strip_prefix("file://")),
            number(line),
            number(column),
        ) {
            (Some(path), Some(line), Some(column)) => written(path, line, column)
                .map(|(line, column)| format!("file://{path}:{line}:{column}")),
            _ => None,
        };
        relocated.push_str(moved.as_deref().unwrap_or(place));
        rest = after;
    }
    relocated + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_files_are_moved_and_nothing_else() {
        let text = "Error: at file://x\n\tat f (file:///a.ts:3:7)\n\tat file:///b.js:1:2\n";
        let moved = relocate(text, |path, line, column| {
            (path == "/a.ts").then_some((line + 10, column + 1))
        });
        assert_eq!(moved, text.replace("a.ts:3:7", "a.ts:13:8"));
    }

    #[test]
    fn the_part_before_a_place_says_where_it_was() {
        let positions = Positions(vec![((0, 0), (2, 4)), ((0, 10), (3, 0)), ((5, 0), (9, 1))]);
        assert_eq!(positions.written(1, 1), Some((3, 5)));
        assert_eq!(positions.written(1, 12), Some((4, 1)));
        assert_eq!(positions.written(4, 1), Some((4, 1)));
        assert_eq!(Positions::default().written(1, 1), None);
    }
}
