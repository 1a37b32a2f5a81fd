use std::time::Duration;

use madang_guard::config::{FailureLimit, IpLimit, Mode};
use madang_guard::{Guard, GuardConfig, Key, Reason};

use crate::kit::{MINUTE, Yard, assert_delay, at, config, quick};

#[tokio::test(start_paused = true)]
async fn off_lets_everybody_pass() {
    let yard = Yard::new(GuardConfig { mode: Mode::Off, ..config() });
    yard.fail_times(1_000, at("kim", 1)).await;
    for _ in 0..2_000 {
        yard.guard.admit_sign_up(at("", 1).attempt().address).await.unwrap();
    }
    assert_eq!(yard.guard.metrics().allowed, 1_000);
}

#[tokio::test(start_paused = true)]
async fn by_ip_blocks_everybody_behind_the_address() {
    let limit = IpLimit { attempts: 5, ..IpLimit::default() };
    let yard = Yard::new(GuardConfig { mode: Mode::Ip(limit), ..config() });
    for account in ["a", "b", "c", "d", "e"] {
        yard.admit(at(account, 1)).await.unwrap().succeed();
    }
    let refused = yard.refused(at("f", 1)).await;
    assert_eq!(refused.reason, Reason::Blocked);
    assert_delay(&refused, 3 * MINUTE);
    yard.fail(at("f", 2)).await;
    yard.clock.advance(3 * MINUTE - Duration::from_nanos(1));
    assert_eq!(yard.reason(at("f", 1)).await, Reason::Blocked);
    yard.clock.advance(Duration::from_nanos(1));
    yard.fail_times(5, at("f", 1)).await;
}

#[tokio::test(start_paused = true)]
async fn by_ip_counts_from_the_first_attempt_for_a_minute() {
    let limit = IpLimit { attempts: 5, ..IpLimit::default() };
    let yard = Yard::new(GuardConfig { mode: Mode::Ip(limit), ..config() });
    yard.fail_times(5, at("a", 1)).await;
    yard.clock.advance(MINUTE);
    yard.fail_times(5, at("a", 1)).await;
    assert_eq!(yard.reason(at("a", 1)).await, Reason::Blocked);
}

#[tokio::test(start_paused = true)]
async fn exempt_addresses_are_neither_limited_nor_counted() {
    let exempt = vec!["10.0.0.0/24".parse().unwrap()];
    let yard = Yard::new(GuardConfig { exempt, ..config() });
    yard.fail_times(1_000, at("kim", 1)).await;
    assert_eq!(yard.guard.metrics().entries, 0);
    assert_eq!(yard.guess(at("kim", 256)).await.0, 10);
}

#[test]
fn ranges_are_read_and_written() {
    use madang_guard::net::Cidr;
    let read = |text: &str| text.parse::<Cidr>();
    for (text, written) in [
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("192.0.2.7", "192.0.2.7/32"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("::/0", "::/0"),
        ("2001:db8::1/32", "2001:db8::/32"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
    ] {
        assert_eq!(read(text).unwrap().to_string(), written);
    }
    for text in
        ["", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/+8", "10.0.0/8", "a/8", "1.2.3.4/-1"]
    {
        assert!(read(text).is_err(), "{text}");
    }
    let range = read("10.0.0.0/8").unwrap();
    assert!(range.contains("::ffff:10.255.0.1".parse().unwrap()));
    assert!(!range.contains("11.0.0.1".parse().unwrap()));
    assert!(!range.contains("::1".parse().unwrap()));
    assert!(!read("::/0").unwrap().contains("10.0.0.1".parse().unwrap()));
}

#[test]
fn settings_out_of_range_are_named() {
    let named = |config: GuardConfig| Guard::new(config).err().unwrap().to_string();
    let pair = FailureLimit { failures: 0, window: MINUTE };
    assert_eq!(
        named(GuardConfig { pair, ..config() }),
        "guard setting pair.failures must be from 1 to 10000"
    );
    assert!(named(quick(50_000_000)).contains("proof.work must be from 1 to 3125000"));
}

#[test]
fn keys_passwords_and_names_do_not_print() {
    assert_eq!(format!("{:?}", Key::new([7; 32])), "Key(…)");
    let attempt = at("kim", 1).password("secret").attempt();
    let printed = format!("{attempt:?}");
    assert!(!printed.contains("kim") && !printed.contains("secret"), "{printed}");
}
