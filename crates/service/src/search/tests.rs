use super::*;
use crate::store::Store;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Indexes all changes.
pub(crate) async fn index_now(store: &Store) {
    while upkeep::index_some(store, 1).await.unwrap() {}
}

proptest! {
    #[test]
    fn a_text_with_all_words_has_all_their_pairs(text in "[가나aB,. ]{0,30}", q in "[가나aB,. ]{0,8}") {
        let (text, words) = (super::text(&[&text]), Words::of(&q));
        if are_in(&words, &text) {
            let has: BTreeSet<i64> = pairs(&text).collect();
            prop_assert!(pairs_of(&words).iter().all(|pair| has.contains(pair)));
        }
    }
}

#[test]
fn a_pair_has_a_space_first_where_a_word_begins() {
    let of = |text| pairs(text).collect::<Vec<_>>();
    assert_eq!(
        of("가나 (b"),
        [pair(' ', '가'), pair('가', '나'), pair(' ', '('), pair(' ', 'b'), pair('(', 'b')]
    );
    assert_eq!(of(""), [] as [i64; 0]);
}
