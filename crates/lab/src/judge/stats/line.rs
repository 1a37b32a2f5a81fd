/// Line of least squares through values one step apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Line {
    pub slope: f64,
    /// R², the explained share of the variance; 0 for equal values.
    pub fit: f64,
}

impl Line {
    /// `None` with fewer than two values.
    pub(crate) fn through(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n < 2 {
            return None;
        }
        let (mean_x, mean_y) = ((n - 1) as f64 / 2.0, values.iter().sum::<f64>() / n as f64);
        let sums = values.iter().enumerate().map(|(x, y)| (x as f64 - mean_x, y - mean_y));
        let (xx, xy, yy) =
            sums.fold((0.0, 0.0, 0.0), |(xx, xy, yy), (x, y)| (xx + x * x, xy + x * y, yy + y * y));
        let fit = if yy > 0.0 { xy * xy / (xx * yy) } else { 0.0 };
        Some(Self { slope: xy / xx, fit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_least_squares_is_found() {
        let line = |values: &[f64]| Line::through(values).unwrap();
        assert_eq!(line(&[1.0, 3.0, 5.0]), Line { slope: 2.0, fit: 1.0 });
        assert_eq!(line(&[4.0, 4.0, 4.0]), Line { slope: 0.0, fit: 0.0 });
        // By hand: mean 2, Σxy = 1, Σxx = 2, Σyy = 2.
        assert_eq!(line(&[2.0, 1.0, 3.0]), Line { slope: 0.5, fit: 0.25 });
        assert_eq!(Line::through(&[1.0]), None);
    }
}
