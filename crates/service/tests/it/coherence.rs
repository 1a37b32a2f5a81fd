//! What writes do to cached bodies, and what those that are refused do not.
#![allow(
    clippy::disallowed_types,
    reason = "holds the write lock from outside, and fills the tables"
)]

use crate::harness::{add, open, runtime, track};
use madang_cache::{Loaded, NamedCache, Policy, Stamp, Value};
use madang_service::app::App;
use madang_service::articles::Edit;
use madang_service::http::Refusal;
use madang_service::response_cache::LoadError;
use madang_service::store::FILE;
use std::future::{Future, poll_fn};
use std::path::Path;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// A store with users 1 and 2, and with an article, a post and a track of user 1.
fn filled(dir: &Path) -> Arc<App> {
    drop(open(dir));
    let conn = rusqlite::Connection::open(dir.join(FILE)).unwrap();
    conn.execute_batch(
        "INSERT INTO users (id, nickname, password_hash, region_id, created_at_ms)
         VALUES (1, 'mina', '-', 11, 0), (2, 'jun', '-', 11, 0);
         INSERT INTO articles (id, author_id, title, created_at_ms, updated_at_ms) VALUES (1, 1, 'walk', 0, 0);
         INSERT INTO article_contents VALUES (1, 'together');
         INSERT INTO towns (id, city_id, name) VALUES (1, 11010, 'town');
         INSERT INTO posts (id, author_id, category_id, state_id, city_id, town_id, price, stock, status, removed,
                            created_at_ms, updated_at_ms, title, item_name, content)
         VALUES (1, 1, 1, 11, 11010, 1, 1, 1, 0, 0, 0, 0, 'bike', 'bike', 'red');",
    )
    .unwrap();
    let app = open(dir);
    runtime().block_on(async {
        let track = madang_service::tracks::NewTrack { owner: Some(1), ..track(1) };
        add(&app.tracks, track).await.unwrap();
    });
    Arc::new(app)
}

/// Bodies that depend on the stamp of their name.
struct Probe(NamedCache<LoadError>);

impl Probe {
    fn new(app: &App) -> Self {
        let policy = Policy::with_ttl(Duration::from_secs(60), Duration::from_secs(60));
        Self(app.cache.named("probe", policy).unwrap())
    }

    async fn load(&self, name: &str) {
        let load = || async { Ok(Loaded::Store(Value::new("body".into(), "text/plain", "tag"))) };
        self.0.get(name, &[Stamp::new(name)], load).await.unwrap();
    }

    fn is_kept(&self, name: &str) -> bool {
        self.0.peek_fresh(name).is_some()
    }
}

/// Lets everything run that can without the writer.
async fn everything_waits() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn writes_that_are_refused_keep_nothing_from_being_stored() {
    let dir = tempfile::tempdir().unwrap();
    let app = filled(dir.path());
    let probe = Probe::new(&app);
    // While this holds the lock, every write of the service is under way and none is done.
    let lock = rusqlite::Connection::open(dir.path().join(FILE)).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    runtime().block_on(async {
        let this = Arc::clone(&app);
        let refused = tokio::spawn(async move {
            tokio::join!(
                this.articles.edit(1, 2, Edit::default()),
                this.articles.store().delete(1, 2),
                this.posts.store().remove(1, 2),
                this.tracks.store().delete(1, 2),
            )
        });
        everything_waits().await;
        let names = ["article:1", "article-comments:1", "post:1", "track:1", "tracks", "articles"];
        for name in names {
            probe.load(name).await;
        }
        let kept = names.map(|name| probe.is_kept(name));
        lock.execute_batch("ROLLBACK").unwrap();
        let (edited, removed, post, track) = refused.await.unwrap();
        assert!(matches!(edited, Ok(Err(Refusal::NotOwner))), "{edited:?}");
        assert!(matches!(removed, Ok(Err(Refusal::NotOwner))), "{removed:?}");
        assert!(matches!(post, Ok(Err(Refusal::NotOwner))), "{post:?}");
        assert!(matches!(track, Ok(Err(Refusal::NotOwner))), "{track:?}");
        assert_eq!(kept, [true; 6], "{names:?}");
        assert_eq!(names.map(|name| probe.is_kept(name)), [true; 6], "{names:?}");
    });
}

#[test]
fn nobody_is_told_of_a_write_before_the_bodies_that_it_changed_have_ended() {
    let dir = tempfile::tempdir().unwrap();
    let app = filled(dir.path());
    let probe = Probe::new(&app);
    let edit = || Edit { title: Some("run".to_owned()), content: None };
    let (busy, idle) = (runtime(), runtime());
    idle.block_on(async {
        for name in ["article:1", "articles"] {
            probe.load(name).await;
        }
    });
    // Taken by the writer, on a loop that does not turn again: what would follow on it comes too late.
    let lock = rusqlite::Connection::open(dir.path().join(FILE)).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut first = Box::pin(app.articles.edit(1, 1, edit()));
    busy.block_on(async {
        let begun = poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending())).await;
        assert!(begun);
        everything_waits().await;
    });
    lock.execute_batch("ROLLBACK").unwrap();
    // The same once more finds it done, and is answered.
    let second = idle.block_on(app.articles.edit(1, 1, edit())).unwrap();
    let second = second.unwrap();
    assert!(!second.changed && second.article.title == "run", "{second:?}");
    assert!(!probe.is_kept("article:1") && !probe.is_kept("articles"));
}
