//! Writes rows in transactions of thousands, while the next ones are made.

use indicatif::ProgressBar;
use madang_service::store::StoreError;
use tokio::task::JoinHandle;

/// Rows of one transaction: some 2 MB of log, and 10 ms of the writer.
const AT_ONCE: usize = 5_000;

/// Collects rows and passes them to `write` in batches, in order.
pub(super) struct Batches<'a, T, W> {
    rows: Vec<T>,
    at_once: usize,
    write: W,
    /// The current batch of the writer, and its number of rows.
    writing: Option<(u64, JoinHandle<Result<(), StoreError>>)>,
    written: u64,
    bar: &'a ProgressBar,
}

impl<'a, T, W, F> Batches<'a, T, W>
where
    W: FnMut(Vec<T>) -> F,
    F: Future<Output = Result<(), StoreError>> + Send + 'static,
{
    /// `write` is one transaction.
    pub(super) fn new(bar: &'a ProgressBar, write: W) -> Self {
        let (rows, at_once) = (Vec::new(), AT_ONCE);
        Self { rows, at_once, write, writing: None, written: 0, bar }
    }

    pub(super) fn at_once(self, rows: usize) -> Self {
        Self { at_once: rows, ..self }
    }

    pub(super) async fn push(&mut self, row: T) -> anyhow::Result<()> {
        self.rows.push(row);
        if self.rows.len() == self.at_once { self.hand_over().await } else { Ok(()) }
    }

    /// Writes the rest; returns the number of all rows written.
    pub(super) async fn finish(mut self) -> anyhow::Result<u64> {
        self.hand_over().await?;
        self.settle().await?;
        Ok(self.written)
    }

    /// Waits for the previous batch and starts writing the next.
    async fn hand_over(&mut self) -> anyhow::Result<()> {
        self.settle().await?;
        if !self.rows.is_empty() {
            let rows = std::mem::replace(&mut self.rows, Vec::with_capacity(self.at_once));
            let count = rows.len() as u64;
            self.writing = Some((count, tokio::spawn((self.write)(rows))));
            // Lets the task begin.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn settle(&mut self) -> anyhow::Result<()> {
        if let Some((count, before)) = self.writing.take() {
            before.await??;
            self.written += count;
            self.bar.inc(count);
        }
        Ok(())
    }
}
