//! Nobody is given a state older than the last finished write.

use madang_cache::{Loaded, Stamp};

use crate::kit::{Kit, body, plain, told, value};

#[tokio::test(start_paused = true)]
async fn a_load_begun_before_a_write_is_not_stored() {
    let kit = Kit::new(plain());
    let load = kit.begin_load("k").await;
    kit.write("k");
    assert_eq!(load.answer(body("old")).await, "old Miss", "its own caller came before the write");
    assert_eq!(kit.metrics().vetoed_fills, 1);
    assert_eq!(kit.get("k", body("new")).await, "new Miss");
    assert_eq!(kit.hit("k").await, "new Hit");
}

#[tokio::test(start_paused = true)]
async fn a_reader_who_comes_after_a_write_is_not_given_an_older_load() {
    let kit = Kit::new(plain());
    let old = kit.begin_load("k").await;
    let early = kit.join_load("k").await;
    kit.write("k");
    let new = kit.begin_load("k").await;
    let late = kit.join_load("k").await;
    assert_eq!(new.answer(body("new")).await, "new Miss");
    assert_eq!(late.await.unwrap(), "new Coalesced");
    assert_eq!(old.answer(body("old")).await, "old Miss");
    assert_eq!(early.await.unwrap(), "old Coalesced", "who came before the write may see either");
    assert_eq!(kit.hit("k").await, "new Hit", "the older load did not overwrite the newer");
}

#[tokio::test(start_paused = true)]
async fn an_older_load_that_ends_first_leaves_the_newer_one_in_its_place() {
    let kit = Kit::new(plain());
    let old = kit.begin_load("k").await;
    kit.write("k");
    let new = kit.begin_load("k").await;
    assert_eq!(old.answer(body("old")).await, "old Miss");
    let late = kit.join_load("k").await;
    assert_eq!(new.answer(body("new")).await, "new Miss");
    assert_eq!(late.await.unwrap(), "new Coalesced");
}

#[tokio::test(start_paused = true)]
async fn an_older_load_that_is_not_to_be_stored_leaves_the_newer_entry() {
    let kit = Kit::new(plain());
    let old = kit.begin_load("k").await;
    kit.write("k");
    kit.get("k", body("new")).await;
    assert_eq!(old.answer(Ok(Loaded::Bypass(value("old")))).await, "old Bypass");
    assert_eq!(kit.hit("k").await, "new Hit");
}

#[tokio::test(start_paused = true)]
async fn a_write_kills_every_entry_of_its_stamp_and_no_other() {
    let kit = Kit::new(plain());
    let (post, list, other) = (Stamp::new("post:1"), Stamp::new("posts"), Stamp::new("tracks"));
    let load = |text: &'static str| move || async move { body(text) };
    for (key, stamps) in
        [("list:1", &[list][..]), ("list:2", &[other, list]), ("post", &[post]), ("far", &[other])]
    {
        kit.named.get(key, stamps, load("old")).await.unwrap();
    }
    kit.cache.invalidate(&[post, list]);
    let alive = ["list:1", "list:2", "post", "far"].map(|key| kit.peek(key).is_some());
    assert_eq!(alive, [false, false, false, true]);
}

#[tokio::test(start_paused = true)]
async fn invalidating_all_kills_entries_and_vetoes_loads() {
    let kit = Kit::new(plain());
    kit.get("k", body("old")).await;
    let load = kit.begin_load("other").await;
    kit.cache.invalidate_all();
    assert_eq!(kit.cache.used_bytes(), 0);
    assert_eq!((kit.metrics().entries, kit.metrics().bytes), (0, 0));
    load.answer(body("old")).await;
    assert_eq!(kit.get("k", body("new")).await, "new Miss");
    assert_eq!(kit.get("other", body("new")).await, "new Miss");
}

#[tokio::test(start_paused = true)]
async fn a_write_kills_negative_entries() {
    let kit = Kit::new(plain());
    assert_eq!(kit.get("k", Ok(Loaded::Absent)).await, "nothing Miss");
    assert_eq!(kit.hit("k").await, "nothing Hit");
    kit.write("k");
    assert_eq!(kit.get("k", body("made")).await, "made Miss");
}

#[tokio::test(start_paused = true)]
async fn a_dead_entry_gives_its_room_back_when_it_is_met() {
    let kit = Kit::new(plain());
    for expired in [false, true] {
        kit.get("k", body("old")).await;
        if expired {
            tokio::time::advance(kit.named.policy().hard_ttl).await;
        } else {
            kit.write("k");
        }
        let load = kit.begin_load("k").await;
        assert_eq!((kit.cache.used_bytes(), kit.metrics().entries), (0, 0));
        load.answer(body("new")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_up_needs_one_to_four_stamps() {
    let kit = Kit::new(plain());
    let five = [Stamp::new("s"); 5];
    for stamps in [&five[..], &[]] {
        let got = kit.named.get("k", stamps, || async { body("v") }).await;
        let expected = format!("error: an entry depends on 1 to 4 stamps, not {}", stamps.len());
        assert_eq!(told(&got), expected);
    }
    assert!(kit.named.get("k", &five[..4], || async { body("v") }).await.is_ok());
}
