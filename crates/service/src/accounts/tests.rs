//! Cases that need access to internals: a client that leaves between two steps, debug output, a clock ahead.

use super::*;
use crate::app::App;
use crate::config::Sources;
use crate::http::{Conditions, Secret, Write};
use crate::idempotency::IdempotencyKey;
use madang_guard::Attempt;
use madang_guard::hash::Password;
use madang_testing::until_async;
use parking_lot::Mutex;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};

/// A directory, and settings for it with a cheap hash.
fn settings() -> (tempfile::TempDir, Settings) {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = Sources::of_test().resolve().unwrap();
    settings.data_dir = dir.path().to_owned();
    settings.accounts.hash = "bcrypt:4".parse().unwrap();
    (dir, settings)
}

/// Accounts in a fresh store.
pub(super) fn fresh(set: impl FnOnce(&mut Settings)) -> (tempfile::TempDir, Store, Accounts) {
    let (dir, mut settings) = settings();
    set(&mut settings);
    let store = Store::open(dir.path(), &settings.database).unwrap();
    let accounts = Accounts::open(store.clone(), &settings).unwrap();
    (dir, store, accounts)
}

/// An attempt with a wrong password.
const ATTEMPT: Attempt<'_> = Attempt {
    account: b"mina",
    address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    password: b"wrong-horse-battery",
    proof: None,
    device_token: None,
    credential: &[],
    under_load: false,
};

fn new_user(nickname: &str) -> NewUser {
    let hash = "bcrypt:4".parse::<madang_guard::hash::Scheme>().unwrap();
    let password_hash = hash.hash(&Password::from("correct-horse")).unwrap().to_string();
    NewUser { nickname: nickname.to_owned(), password_hash, region: 11, created_at_ms: 0 }
}

#[test]
fn a_new_user_prints_without_the_hash() {
    let user = new_user("mina");
    let printed = format!("{user:?}");
    assert!(printed.contains("mina"));
    assert!(!printed.contains("$2b$") && !printed.contains(&user.password_hash), "{printed}");
}

/// Stops the conductor of the hash pool until the sender is dropped.
pub(super) async fn stop_hashing(accounts: &Accounts) -> mpsc::Sender<()> {
    let (go_on, stopped) = mpsc::channel();
    let (tell, told) = tokio::sync::oneshot::channel();
    let stop = move |_| {
        let _ = tell.send(());
        let _ = stopped.recv();
    };
    drop(tokio::spawn(accounts.hasher().verify(Password::from("x"), None, stop)));
    told.await.unwrap();
    go_on
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn a_client_that_leaves_during_the_look_up_has_not_failed() {
    let (_dir, store, accounts) = fresh(|settings| settings.database.max_connections = Some(2));
    // Both readers block: no look-up ends.
    let (open, opened) = mpsc::channel::<()>();
    let opened = Arc::new(Mutex::new(opened));
    let block = || {
        let opened = Arc::clone(&opened);
        store.read(move |_| {
            let _ = opened.lock().recv();
            Ok(())
        })
    };
    let (mut one, mut two) = (pin!(block()), pin!(block()));
    assert!(poll(one.as_mut()).is_pending() && poll(two.as_mut()).is_pending());
    let password = Secret::from("wrong-horse-battery".to_owned());
    for _ in 0..20 {
        let reservation = accounts.guard().admit(&ATTEMPT).await.unwrap();
        let check = pin!(accounts.check("mina", &password, reservation));
        assert!(poll(check).is_pending());
        // The client leaves: `check` is dropped.
    }
    let metrics = accounts.guard().metrics();
    assert_eq!((metrics.failures, metrics.in_flight), (0, 0));
    drop(open);
}

#[tokio::test]
async fn a_client_that_leaves_the_hash_queue_has_not_failed() {
    let (_dir, _, accounts) = fresh(|settings| settings.accounts.hash_threads = Some(1));
    let go_on = stop_hashing(&accounts).await;
    let reservation = accounts.guard().admit(&ATTEMPT).await.unwrap();
    let checking = accounts.clone();
    let check = tokio::spawn(async move {
        let password = Secret::from("wrong-horse-battery".to_owned());
        checking.check("mina", &password, reservation).await.map(drop)
    });
    until_async("it waits for its hash", || accounts.hasher().metrics().queued > 0).await;
    check.abort();
    assert!(check.await.unwrap_err().is_cancelled());
    let metrics = accounts.guard().metrics();
    assert_eq!((metrics.failures, metrics.in_flight), (0, 0));
    drop(go_on);
}

#[tokio::test]
async fn a_log_out_whose_client_leaves_holds_its_place_until_it_is_written() {
    let (_dir, settings) = settings();
    let app = Arc::new(App::open(&settings).unwrap());
    let insert = app.accounts.store().insert(new_user("mina"), IdempotencyKey::default());
    let user = insert.await.unwrap().unwrap();
    let (_, claims) = app.accounts.inner.tokens.issue(user, token::now()).unwrap();
    // The writer blocks.
    let (go_on, stopped) = mpsc::channel::<()>();
    let mut standing = pin!(app.store.write(move |_| {
        let _ = stopped.recv();
        Ok::<_, StoreError>(())
    }));
    assert!(poll(standing.as_mut()).is_pending());
    {
        let caller = Caller { id: user, claims };
        let conditions = Conditions::default();
        let leaving = pin!(sessions::logout(Write { app: Arc::clone(&app), caller, conditions }));
        assert!(poll(leaving).is_pending());
    }
    assert_eq!(app.writes.metrics().in_flight, 1);
    drop(go_on);
    standing.await.unwrap();
    until_async("it is written", || app.writes.metrics().in_flight == 0).await;
    assert!(app.accounts.inner.revoked.contains(&claims));
}

#[tokio::test]
async fn a_cutoff_is_never_after_the_clock() {
    let (_dir, _, accounts) = fresh(|_| {});
    let store = accounts.store();
    let user = store.insert(new_user("mina"), IdempotencyKey::default()).await.unwrap().unwrap();
    let token = |id: u8, issued_at| Claims {
        id: TokenId([id; 16]),
        user,
        issued_at,
        expires_at: issued_at + 1_000,
    };
    let revoke = async |claims: Claims, now| store.revoke(claims, now).await.unwrap();
    // Logged out while the clock was 10,000 s ahead, then once after it was set back.
    let ahead: Vec<_> = (0..revoked::MOST_OF_ONE_USER as u8).map(|id| token(id, 11_000)).collect();
    for claims in &ahead {
        revoke(*claims, 11_000).await;
    }
    revoke(token(200, 999), 1_000).await;
    let revoked = &accounts.inner.revoked;
    assert!(!revoked.contains(&token(201, 1_001)), "a token of today is good");
    assert!(revoked.contains(&token(200, 999)));
    assert!(ahead.iter().all(|claims| revoked.contains(claims)));
}
