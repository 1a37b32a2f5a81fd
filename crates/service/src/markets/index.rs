//! An index of all markets in memory.
//!
//! The directory of a country is a few megabytes and changes only with an import. So it is read once, and a search
//! intersects the lists of its pairs of characters, checks the remaining texts, and takes a page. No search runs SQL.
//!
//! Markets are numbered in the order of their names, so lists of numbers are in that order too.

mod order;
mod postings;
#[cfg(test)]
mod tests;

pub use order::{After, Order, RankedMarket};

use super::fold::{folded, without_spaces};
use super::types::{AddressRegions, Market, MarketId};
use crate::accounts::{RegionId, Regions};
use order::Unit;
use postings::{Builder, Postings, pair, pairs};
use std::collections::HashMap;

/// Precedes a name, and the same without spaces.
const NAME: char = '\u{2}';
/// Precedes each of the goods.
const GOODS: char = '\u{3}';
/// Precedes every other text.
const TEXT: char = '\n';

/// Conditions on markets, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Words in the name, an address, a region's name or the goods.
    pub words: Words,
    /// Words in the goods.
    pub goods: Words,
    /// The province or municipality.
    pub region: Option<RegionId>,
    /// Parts of the type, all of which must be present.
    pub kinds: Vec<String>,
}

/// Words of a search in normal form.
///
/// Words of two or more characters match anywhere; a word of one character (꽃, 쌀) matches only the beginning of a name
/// or of one of the goods, because it occurs in nearly every text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Each word once, in the order of the search.
    each: Vec<String>,
}

impl Words {
    /// Reads the words of `text`.
    pub fn of(text: &str) -> Self {
        let text = folded(text);
        let mut each: Vec<String> = Vec::new();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            if !each.iter().any(|kept| kept == word) {
                each.push(word.to_owned());
            }
        }
        Self { each }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// Each word once, in the order of the search.
    pub(crate) fn each(&self) -> &[String] {
        &self.each
    }

    /// A text that is equal for equal searches, and that reads as the same search.
    pub(crate) fn key(&self) -> String {
        self.each.join(" ")
    }

    fn are_in(&self, text: &str) -> bool {
        self.each.iter().all(|word| match lone(word) {
            Some(character) => begins(text, character),
            None => text.contains(word.as_str()),
        })
    }
}

/// The character of a word of one character.
pub(crate) fn lone(word: &str) -> Option<char> {
    let mut characters = word.chars();
    characters.next().filter(|_| characters.next().is_none())
}

/// Returns true if a name or one of the goods in `text` begins with the character.
fn begins(text: &str, character: char) -> bool {
    let mut before = TEXT;
    text.chars().any(|c| {
        let before = std::mem::replace(&mut before, c);
        c == character && [NAME, GOODS].contains(&before)
    })
}

/// An immutable index of markets.
#[derive(Debug, Default)]
pub struct Index {
    markets: Box<[Market]>,
    /// Numbers by id.
    ids: Box<[(MarketId, u32)]>,
    /// Searched texts of all markets.
    texts: String,
    spans: Box<[Span]>,
    units: Box<[Unit]>,
    postings: Postings,
}

/// Offsets of the parts of a market's text: names, addresses and regions, goods.
#[derive(Clone, Copy, Debug)]
struct Span {
    names: u32,
    places: u32,
    goods: u32,
    end: u32,
}

impl Index {
    /// Builds the index of these markets.
    pub fn new(markets: Vec<Market>, regions: &Regions) -> Self {
        let mut keyed: Vec<_> =
            markets.into_iter().map(|market| (without_spaces(&market.is.name), market)).collect();
        keyed.sort_by(|a, b| (&a.0, a.1.id).cmp(&(&b.0, b.1.id)));
        let mut postings = Builder::default();
        let (mut texts, mut spans) = (String::new(), Vec::with_capacity(keyed.len()));
        let mut regions = RegionTexts { regions, texts: HashMap::new() };
        for (number, (key, market)) in (0..).zip(&keyed) {
            let span = write_text(&mut texts, key, market, &mut regions);
            // No search contains pairs with a space or TEXT, or pairs that end with NAME or GOODS.
            let edge = |first: char, second: char| {
                [first, second].contains(&' ')
                    || [first, second].contains(&TEXT)
                    || [NAME, GOODS].contains(&second)
            };
            postings.add(number, &texts[span.names as usize..span.end as usize], edge);
            spans.push(span);
        }
        texts.shrink_to_fit();
        let markets: Box<[Market]> = keyed.into_iter().map(|(_, market)| market).collect();
        let mut ids: Vec<_> = markets.iter().map(|market| market.id).zip(0..).collect();
        ids.sort_unstable();
        Self {
            units: order::units(&markets),
            markets,
            ids: ids.into(),
            texts,
            spans: spans.into(),
            postings: postings.finish(),
        }
    }

    /// Number of markets.
    pub(super) fn count(&self) -> usize {
        self.markets.len()
    }

    /// The market of this number.
    pub fn market(&self, number: u32) -> &Market {
        &self.markets[number as usize]
    }

    /// The number of the market with this id.
    pub(super) fn number(&self, id: MarketId) -> Option<u32> {
        let at = self.ids.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.ids[at].1)
    }

    /// Bytes of memory without the markets themselves.
    pub fn search_bytes(&self) -> usize {
        self.texts.len()
            + size_of_val(&*self.spans)
            + size_of_val(&*self.ids)
            + size_of_val(&*self.units)
            + self.postings.bytes()
    }

    /// Numbers of the markets that match `filter`, in order; `None` for all of them.
    fn filtered(&self, filter: &Filter) -> Option<Vec<u32>> {
        let mut hits = None;
        if !filter.words.is_empty() {
            hits = Some(self.with_words(&filter.words, |span| (span.names, span.end)));
        }
        if !filter.goods.is_empty() {
            let sold = self.with_words(&filter.goods, |span| (span.goods, span.end));
            hits = Some(hits.map_or_else(|| sold.clone(), |hits| common(&hits, &sold)));
        }
        if filter.region.is_none() && filter.kinds.is_empty() {
            return hits;
        }
        let mut hits = hits.unwrap_or_else(|| self.numbers().collect());
        hits.retain(|number| {
            let market = self.market(*number);
            filter.region.is_none_or(|region| market.place.lies_in(region))
                && filter.kinds.iter().all(|kind| {
                    market.is.kind.iter().any(|own| own.split('+').any(|part| part == kind))
                })
        });
        Some(hits)
    }

    fn numbers(&self) -> std::ops::Range<u32> {
        0..u32::try_from(self.markets.len()).unwrap_or(u32::MAX)
    }

    /// Numbers of the markets with all words in this `part` of their texts.
    fn with_words(&self, words: &Words, part: impl Fn(Span) -> (u32, u32)) -> Vec<u32> {
        let mut wanted: Vec<u64> = words.each.iter().flat_map(|word| pairs(word)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let lists: Option<Vec<_>> = wanted.iter().map(|pair| self.postings.find(*pair)).collect();
        let Some(mut lists) = lists else { return Vec::new() };
        lists.sort_unstable_by_key(|list| list.count);
        let characters = words.each.iter().filter_map(|word| lone(word));
        let begun = characters
            .map(|character| {
                self.postings.with_either(pair(NAME, character), pair(GOODS, character))
            })
            .reduce(|hits, others| common(&hits, &others));
        let mut lists = lists.into_iter();
        let first = begun.or_else(|| lists.next().map(|list| list.numbers().collect()));
        let Some(mut hits) = first else { return Vec::new() };
        for list in lists {
            // Checking a text costs about as much as a hundred entries of a list.
            if hits.len() < list.count / 100 {
                break;
            }
            list.keep_common(&mut hits);
        }
        hits.retain(|number| {
            let (start, end) = part(self.spans[*number as usize]);
            words.are_in(&self.texts[start as usize..end as usize])
        });
        hits
    }

    /// The name of a market, and the same without spaces if that differs; [`NAME`] before each.
    fn names(&self, number: u32) -> &str {
        let span = self.spans[number as usize];
        &self.texts[span.names as usize..span.places as usize]
    }

    /// The name of a market without spaces, which is its sort key.
    fn name_key(&self, number: u32) -> &str {
        let names = self.names(number);
        names.rsplit(NAME).next().unwrap_or(names)
    }
}

/// The intersection of two sorted lists.
fn common(hits: &[u32], others: &[u32]) -> Vec<u32> {
    let mut others = others.iter().peekable();
    let is_common = |number: &u32| {
        while others.next_if(|other| **other < *number).is_some() {}
        others.peek() == Some(&number)
    };
    hits.iter().copied().filter(is_common).collect()
}

/// Appends the text of a market. `key` is its name without spaces.
fn write_text(
    texts: &mut String,
    key: &str,
    market: &Market,
    regions: &mut RegionTexts<'_>,
) -> Span {
    let end = |texts: &String| u32::try_from(texts.len()).unwrap_or(u32::MAX);
    let names = end(texts);
    let name = folded(&market.is.name);
    for name in [&name, key].into_iter().skip(usize::from(name == key)) {
        texts.push(NAME);
        texts.push_str(name);
    }
    let places = end(texts);
    for address in [&market.is.road_address, &market.is.lot_address].into_iter().flatten() {
        texts.push(TEXT);
        texts.push_str(&folded(address));
    }
    regions.write(texts, market.place);
    let goods = end(texts);
    for goods in &market.is.goods {
        texts.push(GOODS);
        texts.push_str(&folded(goods));
    }
    Span { names, places, goods, end: end(texts) }
}

/// The names of regions, joined once for each.
struct RegionTexts<'a> {
    regions: &'a Regions,
    texts: HashMap<RegionId, String>,
}

impl RegionTexts<'_> {
    fn write(&mut self, texts: &mut String, place: AddressRegions) {
        for id in [place.province, place.municipality].into_iter().flatten() {
            let text = self.texts.entry(id).or_insert_with(|| {
                let names = self.regions.names(id);
                names.iter().flat_map(|name| [TEXT.to_string(), folded(name)]).collect()
            });
            texts.push_str(text);
        }
    }
}
