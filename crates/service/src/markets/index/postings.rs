//! Lists of texts by pair of neighbouring characters.
//!
//! Hangul syllables are characters, and Korean searches have two of them and more, so pairs of
//! characters replace the trigrams of Latin text. A list of texts is stored as differences, seven
//! bits a byte: a pair in every name, such as 시장, takes a byte a text.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Lists of texts by pair of characters. Immutable.
#[derive(Debug, Default)]
pub(super) struct Postings {
    /// Sorted.
    pairs: Box<[u64]>,
    /// Offset of the list of each pair in `lists`, and the end of the last.
    starts: Box<[u32]>,
    /// Number of texts of each pair.
    counts: Box<[u32]>,
    lists: Box<[u8]>,
}

/// Builds the lists. Texts must be added in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct Builder(HashMap<u64, List>);

#[derive(Debug)]
struct List {
    bytes: Vec<u8>,
    last: u32,
    count: u32,
}

/// The pair as a number.
pub(super) fn pair(first: char, second: char) -> u64 {
    u64::from(u32::from(first)) << 32 | u64::from(u32::from(second))
}

/// The pairs of neighbours in `text`, as numbers.
pub(super) fn pairs(text: &str) -> impl Iterator<Item = u64> {
    text.chars().zip(text.chars().skip(1)).map(|(first, second)| pair(first, second))
}

impl Builder {
    /// Adds a text, without the pairs that `is_edge` excludes because no search contains them.
    pub(super) fn add(&mut self, number: u32, text: &str, is_edge: impl Fn(char, char) -> bool) {
        for (first, second) in text.chars().zip(text.chars().skip(1)) {
            if is_edge(first, second) {
                continue;
            }
            match self.0.entry(pair(first, second)) {
                Entry::Vacant(place) => {
                    let mut bytes = Vec::with_capacity(4);
                    write(&mut bytes, number);
                    place.insert(List { bytes, last: number, count: 1 });
                }
                Entry::Occupied(mut list) => {
                    let list = list.get_mut();
                    if list.last != number {
                        write(&mut list.bytes, number - list.last);
                        list.last = number;
                        list.count += 1;
                    }
                }
            }
        }
    }

    pub(super) fn finish(self) -> Postings {
        let mut found: Vec<(u64, List)> = self.0.into_iter().collect();
        found.sort_unstable_by_key(|(pair, _)| *pair);
        let mut lists = Vec::with_capacity(found.iter().map(|(_, list)| list.bytes.len()).sum());
        let mut starts = Vec::with_capacity(found.len() + 1);
        for (_, list) in &found {
            starts.push(offset(lists.len()));
            lists.extend_from_slice(&list.bytes);
        }
        starts.push(offset(lists.len()));
        Postings {
            pairs: found.iter().map(|(pair, _)| *pair).collect(),
            starts: starts.into(),
            counts: found.iter().map(|(_, list)| list.count).collect(),
            lists: lists.into(),
        }
    }
}

/// The lists are far smaller than 4 GiB.
fn offset(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl Postings {
    /// The list of this pair; `None` if no text contains it.
    pub(super) fn find(&self, pair: u64) -> Option<Posting<'_>> {
        let at = self.pairs.binary_search(&pair).ok()?;
        let (start, end) = (self.starts[at] as usize, self.starts[at + 1] as usize);
        Some(Posting { bytes: &self.lists[start..end], count: self.counts[at] as usize })
    }

    /// The texts with either of two pairs, in the order of their numbers.
    pub(super) fn with_either(&self, one: u64, other: u64) -> Vec<u32> {
        let lists = [one, other].into_iter().filter_map(|pair| self.find(pair));
        let mut texts: Vec<u32> = lists.flat_map(Posting::numbers).collect();
        // Two sorted runs: the sort finds them and merges.
        texts.sort();
        texts.dedup();
        texts
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        8 * self.pairs.len() + 4 * self.starts.len() + 4 * self.counts.len() + self.lists.len()
    }
}

/// The texts with a pair, in the order of their numbers.
#[derive(Clone, Copy)]
pub(super) struct Posting<'a> {
    bytes: &'a [u8],
    /// Number of texts.
    pub(super) count: usize,
}

pub(super) struct Numbers<'a> {
    bytes: &'a [u8],
    last: u32,
}

impl Iterator for Numbers<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let (mut step, mut shift) = (0, 0);
        loop {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            step |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
        }
        self.last += step;
        Some(self.last)
    }
}

impl<'a> Posting<'a> {
    pub(super) fn numbers(self) -> Numbers<'a> {
        Numbers { bytes: self.bytes, last: 0 }
    }

    /// Removes those of `texts`, which are in order, that are not in the list.
    pub(super) fn keep_common(self, texts: &mut Vec<u32>) {
        let mut numbers = self.numbers();
        let mut next = numbers.next();
        texts.retain(|text| {
            while next.is_some_and(|number| number < *text) {
                next = numbers.next();
            }
            next == Some(*text)
        });
    }
}

fn write(bytes: &mut Vec<u8>, mut number: u32) {
    while number > 0x7f {
        bytes.push(0x80 | (number & 0x7f) as u8);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_list_holds_exactly_the_texts_with_its_pair(texts in prop::collection::vec("[ab가]{0,6}", 0..300), of in "[ab가]{2}") {
            let mut builder = Builder::default();
            for (number, text) in texts.iter().enumerate() {
                builder.add(number as u32 * 997, text, |_, _| false);
            }
            let postings = builder.finish();
            let wanted: Vec<u32> = (0..).step_by(997).zip(&texts)
                .filter(|(_, text)| text.contains(&of)).map(|(number, _)| number).collect();
            let found = postings.find(pairs(&of).next().unwrap());
            prop_assert_eq!(found.map_or(0, |list| list.count), wanted.len());
            prop_assert_eq!(found.map_or(vec![], |list| list.numbers().collect()), wanted);
        }

        #[test]
        fn what_is_common_is_kept(list in prop::collection::btree_set(0u32..400, 1..200), other in prop::collection::btree_set(0u32..400, 0..200)) {
            let mut builder = Builder::default();
            for number in &list {
                builder.add(*number, "가나", |_, _| false);
            }
            let postings = builder.finish();
            let mut kept: Vec<u32> = other.iter().copied().collect();
            postings.find(pair('가', '나')).unwrap().keep_common(&mut kept);
            let wanted: BTreeSet<u32> = list.intersection(&other).copied().collect();
            prop_assert_eq!(kept, Vec::from_iter(wanted));
        }
    }
}
