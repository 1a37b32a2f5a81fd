//! The real nginx, as installed by Debian.

use std::fs;
use std::time::Duration;

use madang_stack::Error;
use madang_stack::http::{self, Url};
use madang_stack::nginx::{Nginx, StaticSite};
use madang_testing::until;

use crate::help::{DEADLINE, supervisor};

fn start(site: &tempfile::TempDir, dir: &tempfile::TempDir) -> Nginx {
    let site = StaticSite { root: site.path().to_owned(), workers: 2 };
    Nginx::static_site(&supervisor(), dir.path(), &site).unwrap()
}

#[test]
fn nginx_serves_the_files_of_a_directory_until_it_is_stopped() {
    let (site, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(site.path().join("small.json"), "{\"a\":1}").unwrap();
    let nginx = start(&site, &dir);
    let url = Url::parse(&format!("{}/small.json", nginx.url())).unwrap();
    let answer = http::get(&url, DEADLINE).unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (200, &b"{\"a\":1}"[..]));
    // The first of its workers has answered; the other may still have to be started.
    let processes = || nginx.sample().unwrap().processes;
    until("a master and two workers", || (processes() == 3).then_some(()));
    nginx.stop().unwrap();
    assert!(http::get(&url, Duration::from_secs(1)).is_err());
}

#[test]
fn several_nginx_run_side_by_side() {
    let site = tempfile::tempdir().unwrap();
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let all: Vec<Nginx> = dirs.iter().map(|dir| start(&site, dir)).collect();
    for nginx in &all {
        let url = Url::parse(&format!("{}/missing", nginx.url())).unwrap();
        assert_eq!(http::get(&url, DEADLINE).unwrap().status, 404);
    }
}

#[test]
fn a_directory_name_with_odd_characters_needs_no_quoting() {
    let site = tempfile::tempdir().unwrap();
    let outer = tempfile::tempdir().unwrap();
    let odd = outer.path().join("a b;{$x}\"'");
    fs::create_dir(&odd).unwrap();
    let site = StaticSite { root: site.path().to_owned(), workers: 1 };
    Nginx::static_site(&supervisor(), &odd, &site).unwrap();
}

#[test]
fn a_site_that_does_not_exist_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let site = StaticSite { root: "/does/not/exist".into(), workers: 1 };
    let error = Nginx::static_site(&supervisor(), dir.path(), &site).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error:?}");
    assert!(error.to_string().contains("/does/not/exist"), "{error}");
}
