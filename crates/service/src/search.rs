//! Search for words in posts and articles (docs/decisions/0065-text-search.md).
//!
//! The index is a table, the same in both engines: for each pair of neighbouring characters and each
//! [segment](SEGMENT) of ids, the items that contain the pair. A lookup returns candidates; the text of each is
//! checked before it is shown. So the index may return too many, and nothing is removed from it when a text changes
//! or is deleted.
//!
//! A write only notes a text to be indexed (`search_changes`, in its own transaction). Noted items are candidates of
//! every search, so they are found at once; the housekeeper indexes them in batches, which share pages of the index
//! ([`upkeep`]). Writing the pairs with every post would touch a hundred pages.

mod index;
mod page;
#[cfg(test)]
mod tests;
mod upkeep;

pub(crate) use index::{add_all, note};
pub(crate) use page::{Hits, Listing, Position, page};
#[cfg(test)]
pub(crate) use tests::index_now;
pub(crate) use upkeep::index_changes;

use crate::markets::{Words, folded, lone};

/// Ids per row of the index: 2 KiB of memory as bits, or two bytes per id. Tests use small bounds to reach all of
/// them.
const SEGMENT: i64 = if cfg!(test) { 64 } else { 1 << 14 };

/// Maximum number of pairs looked up per search; texts are checked for all words.
const MOST_PAIRS: usize = 24;

/// A kind of searched items. `texts` selects the id, then three texts, by `… id = ?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corpus {
    number: i64,
    texts: &'static str,
}

pub(crate) const POSTS: Corpus =
    Corpus { number: 0, texts: "SELECT id, title, item_name, content FROM posts WHERE id = ?" };

pub(crate) const ARTICLES: Corpus = Corpus {
    number: 1,
    texts: "SELECT a.id, a.title, '', c.content
              FROM articles a JOIN article_contents c ON c.article_id = a.id WHERE a.id = ?",
};

const KINDS: [Corpus; 2] = [POSTS, ARTICLES];

/// The texts of an item as one, in the form in which it is compared with words.
pub(crate) fn text(parts: &[&str]) -> String {
    folded(&parts.join(" "))
}

/// True if a text contains every word. A word of one character must begin a word of the text, as nearly every text
/// contains it somewhere.
fn are_in(words: &Words, text: &str) -> bool {
    words.each().iter().all(|word| match lone(word) {
        Some(character) => begins_a_word(text, character),
        None => text.contains(word.as_str()),
    })
}

fn begins_a_word(text: &str, character: char) -> bool {
    let mut before = ' ';
    text.chars().any(|c| {
        let before = std::mem::replace(&mut before, c);
        c == character && !before.is_alphanumeric()
    })
}

/// Pairs of a text, not deduplicated: neighbours, and a space with each character that begins a word.
fn pairs(text: &str) -> impl Iterator<Item = i64> {
    let mut before = ' ';
    text.chars().flat_map(move |c| {
        let before = std::mem::replace(&mut before, c);
        let begins = (c != ' ' && !before.is_alphanumeric()).then(|| pair(' ', c));
        let follows = (c != ' ' && before != ' ').then(|| pair(before, c));
        begins.into_iter().chain(follows)
    })
}

/// Pairs of every text that contains these words.
fn pairs_of(words: &Words) -> Vec<i64> {
    let mut all = Vec::new();
    for word in words.each() {
        match lone(word) {
            Some(character) => all.push(pair(' ', character)),
            None => {
                let neighbours = word.chars().zip(word.chars().skip(1));
                all.extend(neighbours.map(|(first, second)| pair(first, second)));
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    all.truncate(MOST_PAIRS);
    all
}

/// A character has 21 bits.
fn pair(first: char, second: char) -> i64 {
    i64::from(u32::from(first)) << 21 | i64::from(u32::from(second))
}
