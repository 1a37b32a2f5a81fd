//! Searches in articles.

use super::super::store::listing::PageRequest;
use super::super::types::Order;
use super::*;
use crate::markets::Words;
use crate::search::index_now;

async fn found(bench: &Bench, all: &Articles, q: &str, order: Order) -> Vec<ArticleId> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let asked = PageRequest { words: Words::of(q), order, after };
        let page = bench.articles.listed(asked, 3, &all.likes.core.pending).await.unwrap();
        ids.extend(page.items.iter().map(|listed| listed.article.id));
        let last = page.items.last().filter(|_| page.items.len() == 3);
        after = last.map(|last| last.article.position()).or(page.more);
        if after.is_none() {
            return ids;
        }
    }
}

#[tokio::test]
async fn articles_are_found_by_title_and_content_in_both_orders() {
    let bench = Bench::with_articles(30).await;
    let all = articles(&bench);
    let pairs = (1..=30).flat_map(|id| (0..id % 4).map(move |user| (id, user + 1))).collect();
    all.likes().like_all(pairs).await.unwrap();
    let mut wanted: Vec<_> = (1..=30).collect();
    wanted.reverse();
    assert_eq!(found(&bench, &all, "함께 ARTICLE", Order::Newest).await, wanted);
    wanted.sort_by_key(|id| (-(id % 4), -id));
    assert_eq!(found(&bench, &all, "함께", Order::Likes).await, wanted);
    for order in [Order::Newest, Order::Likes] {
        assert_eq!(found(&bench, &all, "e 17", order).await, [] as [i64; 0]);
        assert_eq!(found(&bench, &all, "17", order).await, [17]);
        assert_eq!(found(&bench, &all, "17 걸어", order).await, [17]);
        assert_eq!(found(&bench, &all, "17 달려", order).await, [] as [i64; 0]);
    }
}

#[tokio::test]
async fn an_article_is_found_as_it_is_now() {
    let bench = Bench::with_articles(3).await;
    let all = articles(&bench);
    let added =
        all.store().create(article(1, "망원동 빵집"), Once::default()).await.unwrap().outcome;
    let is = async |q, ids: &[i64]| {
        for order in [Order::Newest, Order::Likes] {
            assert_eq!(found(&bench, &all, q, order).await, ids, "{q}");
        }
    };
    is("빵집", &[added]).await;
    index_now(&bench.store).await;
    assert_eq!(bench.store.number("SELECT count(*) FROM search_changes").await, 0);
    is("빵집", &[added]).await;
    let edit = Edit { content: Some("소금빵".to_owned()), ..Edit::default() };
    assert!(matches!(all.edit(2, 1, edit).await, Ok(Ok(_))));
    is("소금빵", &[2]).await;
    is("함께", &[added, 3, 1]).await;
    index_now(&bench.store).await;
    is("소금빵", &[2]).await;
    is("함께", &[added, 3, 1]).await;
    let edit = Edit { title: Some("소금빵".to_owned()), ..Edit::default() };
    assert!(matches!(all.edit(3, 1, edit).await, Ok(Ok(_))));
    assert_eq!(all.store().delete(2, 1).await.unwrap(), Ok(()));
    // It is deleted before it is indexed, which must not stop the others.
    is("소금빵", &[3]).await;
    index_now(&bench.store).await;
    is("소금빵", &[3]).await;
    assert_eq!(bench.store.number("SELECT count(*) FROM search_changes").await, 0);
}
