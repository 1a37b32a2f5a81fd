//! `madang seed` with articles, comments and likes.

use crate::harness::{Madang, Output, Setup, database};
use std::path::Path;

fn seed(dir: &Path, args: &[&str]) -> Output {
    let shared = ["seed", "--shared-hash", "--data", dir.to_str().unwrap()];
    Madang::new(shared.iter().chain(args)).run()
}

const ROWS: [&str; 8] =
    ["--users", "20", "--articles", "50", "--comments", "120", "--likes", "400"];

fn number(dir: &Path, sql: &str) -> i64 {
    database::number(dir, sql).unwrap()
}

fn contents(dir: &Path) -> Vec<String> {
    [
        "SELECT group_concat(id || ' ' || author_id || title || content || created_at_ms || ' ' || like_count || ' ' || comment_count)
         FROM (SELECT * FROM articles JOIN article_contents ON article_id = id ORDER BY id) t",
        "SELECT group_concat(id || ' ' || article_id || ' ' || author_id || content || created_at_ms)
         FROM (SELECT * FROM article_comments ORDER BY id) t",
        "SELECT group_concat(article_id || ' ' || user_id)
         FROM (SELECT * FROM article_likes ORDER BY article_id, user_id) t",
    ]
    .iter()
    .map(|sql| database::text(dir, sql))
    .collect()
}

#[test]
fn seeded_likes_are_as_many_as_asked_for_and_counts_are_rows() {
    let dir = tempfile::tempdir().unwrap();
    let output = seed(dir.path(), &ROWS);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(output.stdout.contains("50 articles, 120 comments and 400 likes"), "{}", output.stdout);
    for (table, rows) in [("articles", 50), ("article_comments", 120), ("article_likes", 400)] {
        assert_eq!(number(dir.path(), &format!("SELECT count(*) FROM {table}")), rows, "{table}");
    }
    crate::likes::counts_are_rows(dir.path());
    assert_eq!(number(dir.path(), "SELECT sum(comment_count) FROM articles"), 120);
    // Of rank 0, number 1, everybody likes it; the last rank has 400 / (50 * 4.5) of them.
    assert_eq!(number(dir.path(), "SELECT like_count FROM articles WHERE id = 1"), 20);
    assert!(number(dir.path(), "SELECT min(like_count) FROM articles") <= 2);
    let server = Setup::new().data(dir.path()).start();
    let page = server.get("/v1/articles?sort=likes&limit=1").json();
    assert_eq!(page["items"][0]["likeCount"], 20);
    assert!(
        page["items"][0]["title"].as_str().unwrap().contains(|c: char| ('가'..='힣').contains(&c))
    );
}

#[test]
fn the_same_numbers_give_the_same_articles_and_what_is_there_is_not_added_again() {
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    for (dir, more) in dirs.iter().zip([&[][..], &[], &["--seed", "1"]]) {
        assert_eq!(seed(dir.path(), &[&ROWS[..], more].concat()).code, Some(0));
    }
    assert_eq!(contents(dirs[0].path()), contents(dirs[1].path()));
    assert_ne!(contents(dirs[0].path()), contents(dirs[2].path()));
    let again = seed(dirs[0].path(), &ROWS);
    assert!(
        again.stdout.contains("added 0 users, 0 articles, 0 comments and 0 likes"),
        "{}",
        again.stdout
    );
    assert_eq!(contents(dirs[0].path()), contents(dirs[1].path()));
}

#[test]
fn with_more_users_and_articles_only_the_likes_that_are_missing_are_added() {
    let dir = tempfile::tempdir().unwrap();
    let mut there = 0;
    for (users, articles, wanted, added) in [
        ("20", "50", "400", 400),
        ("40", "50", "400", 0),
        ("40", "90", "400", 0),
        ("40", "90", "430", 30),
        ("60", "200", "2000", 1570),
        ("20", "50", "400", 0),
    ] {
        let args = ["--users", users, "--articles", articles, "--likes", wanted];
        let output = seed(dir.path(), &args);
        assert_eq!(output.code, Some(0), "{args:?}: {}", output.stderr);
        let said = format!("and {added} likes in ");
        assert!(output.stdout.contains(&said), "{args:?}: {}", output.stdout);
        there += added;
        assert_eq!(number(dir.path(), "SELECT count(*) FROM article_likes"), there, "{args:?}");
        crate::likes::counts_are_rows(dir.path());
    }
}

#[test]
fn likes_that_a_run_did_not_come_to_are_those_it_would_have_added() {
    let (whole, cut) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for dir in [&whole, &cut] {
        assert_eq!(seed(dir.path(), &ROWS).code, Some(0));
    }
    // A run is cut short between two transactions: articles at the end have none, one has a part.
    let lost =
        "DELETE FROM article_likes WHERE article_id > 20 OR (article_id = 20 AND user_id > 3);
                UPDATE articles SET like_count =
                  (SELECT count(*) FROM article_likes WHERE article_id = articles.id)";
    database::execute(cut.path(), lost);
    assert!(number(cut.path(), "SELECT count(*) FROM article_likes") < 400);
    assert_eq!(seed(cut.path(), &ROWS).code, Some(0));
    assert_eq!(contents(cut.path()), contents(whole.path()));
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    for wrong in [
        &["--users", "2", "--likes", "5"][..],
        &["--users", "2", "--comments", "5"],
        &["--users", "2", "--articles", "3", "--likes", "7"],
        &["--users", "2", "--articles", "-1"],
        &["--users", "2", "--articles", "5000001"],
    ] {
        let output = seed(&data, wrong);
        assert_eq!(output.code, Some(2), "{wrong:?}: {}", output.stderr);
        assert!(!data.exists(), "{wrong:?}");
    }
}
