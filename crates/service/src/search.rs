//! Search in the texts of posts and articles: which of them hold every word.
//!
//! Korean is searched for by two syllables and more, so the index is of pairs of neighbouring characters, as that of
//! [`markets`](crate::markets) is. A million posts do not belong into the memory of a small machine, so this one is a
//! table, and the same on both engines: for each pair and each [segment](SEGMENT) of ids, the items whose text holds it.
//! Its answer is a list of candidates; the text of each is looked at before it is shown. So the index may name too
//! many, and nothing has to be taken out of it when a text changes or goes.
//!
//! **A write notes only that there is a text to index** (`search_changes`, in its own transaction). Such items are
//! candidates of every search, so they are found at once; the housekeeper adds them to the index when there are
//! enough of them to share its pages ([`upkeep`]). A write of pairs with every post would touch a hundred pages.
//!
//! **Why not the engines' own.** Measured with 100,000 posts, pairs as words (docs/PERFORMANCE.md): MariaDB's `FULLTEXT`
//! takes 2 KB and 0.3 ms a post, and a second for a word that a quarter of the posts has, since it finds all of them
//! before it sorts; and it has no parser for pairs. SQLite's FTS5 is half as large as this, but would be a second
//! way, for one of the engines. Reading all texts takes 2 µs each.

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

/// Ids of one row of the index: a bit for each is 2 KiB in memory, and their numbers within it are two bytes each.
/// Tests reach the second one, and the other bounds of a search.
const SEGMENT: i64 = if cfg!(test) { 64 } else { 1 << 14 };

/// Most pairs of a search that are looked up; texts are looked at for all of its words.
const MOST_PAIRS: usize = 24;

/// What is searched. Its texts are found by `… id = ?`: the id first, then up to three texts.
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

/// Texts of an item as one, as it is compared with words.
pub(crate) fn text(parts: &[&str]) -> String {
    folded(&parts.join(" "))
}

/// Whether a text holds every word. A word of one character begins a word of the text: anywhere would be nearly
/// everywhere.
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

/// The pairs of a text as numbers, some of them twice: neighbours, and a space with each character that begins a word.
fn pairs(text: &str) -> impl Iterator<Item = i64> {
    let mut before = ' ';
    text.chars().flat_map(move |c| {
        let before = std::mem::replace(&mut before, c);
        let begins = (c != ' ' && !before.is_alphanumeric()).then(|| pair(' ', c));
        let follows = (c != ' ' && before != ' ').then(|| pair(before, c));
        begins.into_iter().chain(follows)
    })
}

/// The pairs that a text with these words has.
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

/// Characters have 21 bits.
fn pair(first: char, second: char) -> i64 {
    i64::from(u32::from(first)) << 21 | i64::from(u32::from(second))
}
