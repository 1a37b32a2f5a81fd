//! nginx in front of several nodes: the real one, as installed by Debian.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};

use madang_stack::PortReservation;
use madang_stack::http::{self, Url};
use madang_stack::nginx::{Balancer, Certificate, Nginx, Profile, StaticSite};
use madang_testing::{Finish as _, skip, until};

use crate::help::{DEADLINE, certificate, signal, supervisor};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const SHED: &str =
    "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
/// Closes the connection instead of answering.
const BREAK: &str = "";

/// A node with one response to everything, which keeps the heads it receives.
struct Node {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    connections: usize,
    heads: Vec<String>,
}

impl Node {
    fn start(answer: &'static str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Arc::<Mutex<Seen>>::default());
        let into = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let into = Arc::clone(&into);
                into.lock().unwrap().connections += 1;
                std::thread::spawn(move || serve(stream, answer, &into));
            }
        });
        Self { address, seen }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }
}

fn serve(mut stream: TcpStream, answer: &str, seen: &Mutex<Seen>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    loop {
        let (mut head, mut line) = (String::new(), String::new());
        while matches!(lines.read_line(&mut line), Ok(1..)) && line != "\r\n" {
            head += &std::mem::take(&mut line);
        }
        if head.is_empty() {
            return;
        }
        let is_last = head.contains("HTTP/1.0") || answer == BREAK;
        seen.lock().unwrap().heads.push(head);
        if stream.write_all(answer.as_bytes()).is_err() || is_last {
            return;
        }
    }
}

struct Front {
    nginx: Nginx,
    _dir: tempfile::TempDir,
}

impl Front {
    fn of(nodes: &[SocketAddr], profile: Profile, certificate: Option<Certificate>) -> Self {
        Self::start(&Balancer { nodes: nodes.to_vec(), profile, workers: None, certificate })
    }

    fn start(balancer: &Balancer) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { nginx: Nginx::balancer(&supervisor(), dir.path(), balancer).unwrap(), _dir: dir }
    }

    fn get(&self) -> u16 {
        http::get(&Url::parse(&self.nginx.url()).unwrap(), DEADLINE).unwrap().status
    }

    /// The response to these bytes, over plain HTTP.
    fn send(&self, request: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.nginx.port())).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

fn two(answer: &'static str) -> ([Node; 2], [SocketAddr; 2]) {
    let nodes = [Node::start(answer), Node::start(answer)];
    let addresses = [nodes[0].address, nodes[1].address];
    (nodes, addresses)
}

#[test]
fn requests_are_spread_and_only_the_tuned_nginx_keeps_its_connections() {
    for profile in [Profile::Stock, Profile::Tuned] {
        let (nodes, addresses) = two(OK);
        let front = Front::of(&addresses, profile, None);
        assert!((0..200).all(|_| front.get() == 200));
        let heads = nodes.each_ref().map(|node| node.seen().heads.len());
        assert_eq!(heads[0] + heads[1], 200, "{profile:?}");
        assert!(heads.iter().all(|count| *count > 50), "{profile:?}: {heads:?}");
        let opened: usize = nodes.iter().map(|node| node.seen().connections).sum();
        let version = if profile == Profile::Stock { "HTTP/1.0" } else { "HTTP/1.1" };
        assert!(nodes[0].seen().heads[0].contains(version), "{profile:?}");
        match profile {
            Profile::Stock => assert_eq!(opened, 200, "one for each request"),
            // Each worker, one per core, keeps its own.
            Profile::Tuned => assert!(opened < 200, "{opened} for 200 requests"),
        }
    }
}

#[test]
fn a_worker_short_of_connections_closes_those_of_clients_who_are_between_two_requests() {
    for profile in [Profile::Stock, Profile::Tuned] {
        let (_nodes, nodes) = two(OK);
        let (nodes, workers) = (nodes.to_vec(), Some(1));
        let front = Front::start(&Balancer { nodes, profile, workers, certificate: None });
        let client = || {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, front.nginx.port())).unwrap();
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            let answer = stream.read(&mut [0; 4096]).unwrap();
            assert!(answer > 0);
            stream
        };
        let clients: Vec<_> = (0..800).map(|_| client()).collect();
        let is_closed = |mut client: &TcpStream| {
            client.set_nonblocking(true).unwrap();
            !client.read(&mut [0; 4096]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        };
        let closed = clients.iter().filter(|client| is_closed(client)).count();
        match profile {
            Profile::Stock => assert!(closed > 0, "800 clients and 768 connections"),
            Profile::Tuned => assert_eq!(closed, 0),
        }
    }
}

#[test]
fn its_counters_are_at_a_port_of_their_own_and_clients_get_what_nodes_have_at_every_path() {
    let files = tempfile::tempdir().unwrap();
    for profile in [Profile::Stock, Profile::Tuned] {
        let node = Node::start(SHED);
        let front = Front::of(&[node.address], profile, Some(certificate(files.path())));
        let status = Url::parse(&front.nginx.status_url().unwrap()).unwrap();
        assert_ne!(status.port(), front.nginx.port());
        let requests = || {
            let page = http::get(&status, DEADLINE).unwrap();
            let page = String::from_utf8(page.body).unwrap();
            let sums = page.lines().nth(2).unwrap().split_whitespace();
            sums.last().unwrap().parse::<u32>().unwrap()
        };
        let before = requests();
        assert_eq!(front.get(), 503, "the node answers `/`");
        assert_eq!(requests(), before + 2, "this one counts as well");
    }
}

#[test]
fn no_get_fails_when_a_node_is_killed() {
    let site = tempfile::tempdir().unwrap();
    fs::write(site.path().join("index.html"), "here").unwrap();
    let site = StaticSite { root: site.path().to_owned(), workers: 1 };
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let nodes =
        dirs.each_ref().map(|dir| Nginx::static_site(&supervisor(), dir.path(), &site).unwrap());
    let addresses =
        nodes.each_ref().map(|node| SocketAddr::from((Ipv4Addr::LOCALHOST, node.port())));
    let front = Front::of(&addresses, Profile::Tuned, None);
    for request in 0..400 {
        if request == 100 {
            signal(nodes[0].pid(), rustix::process::Signal::KILL);
        }
        assert_eq!(front.get(), 200, "request {request}");
    }
    until("its end is seen", || nodes[0].exit());
    assert_eq!(front.get(), 200);
}

#[test]
fn what_overloaded_nodes_answer_reaches_the_client_and_is_not_asked_for_again() {
    let (nodes, addresses) = two(SHED);
    let front = Front::of(&addresses, Profile::Tuned, None);
    let request = "GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    for _ in 0..100 {
        let answer = front.send(request);
        assert!(
            answer.starts_with("HTTP/1.1 503 ") && answer.contains("Retry-After: 1"),
            "{answer}"
        );
    }
    assert_eq!(nodes.iter().map(|node| node.seen().heads.len()).sum::<usize>(), 100);
}

#[test]
fn a_post_that_was_sent_is_not_sent_to_another_node_and_a_get_is() {
    let (nodes, addresses) = two(BREAK);
    let front = Front::of(&addresses, Profile::Tuned, None);
    let asked = |method| {
        let nodes = nodes
            .each_ref()
            .map(|node| node.seen().heads.iter().filter(|head| head.starts_with(method)).count());
        nodes[0] + nodes[1]
    };
    let request = "/ HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let answer = front.send(&format!("POST {request}"));
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert_eq!(asked("POST"), 1);
    front.send(&format!("GET {request}"));
    assert_eq!(asked("GET"), 2);
}

#[test]
fn a_post_is_sent_to_another_node_when_the_first_one_refuses_the_connection() {
    let node = Node::start(OK);
    // Nothing listens at a reserved port.
    let reserved = PortReservation::new().unwrap();
    let gone = SocketAddr::from((Ipv4Addr::LOCALHOST, reserved.port()));
    let front = Front::of(&[gone, node.address], Profile::Tuned, None);
    let post = "POST / HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    assert!((0..20).all(|_| front.send(post).starts_with("HTTP/1.1 200 ")));
    assert_eq!(node.seen().heads.len(), 20);
}

#[test]
fn what_a_client_claims_about_its_address_goes_no_further() {
    let (node, request) = (Node::start(OK), "GET / HTTP/1.1\r\nHost: shop.example\r\n");
    let front = Front::of(&[node.address], Profile::Tuned, None);
    front.send(&format!(
        "{request}X-Forwarded-For: 6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\n\
         X-Forwarded-Proto: https\r\nConnection: close\r\n\r\n"
    ));
    let head = node.seen().heads[0].clone();
    assert!(!head.contains("6.6.6.6"), "{head}");
    assert!(!head.to_lowercase().contains("connection:"), "{head}");
    for line in ["Host: shop.example", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Proto: http"] {
        assert!(head.lines().any(|found| found == line), "{line:?} is not in {head}");
    }
}

#[test]
fn with_a_certificate_plain_http_redirects_and_clients_may_speak_http_2() {
    let files = tempfile::tempdir().unwrap();
    for profile in [Profile::Stock, Profile::Tuned] {
        let node = Node::start(OK);
        let front = Front::of(&[node.address], profile, Some(certificate(files.path())));
        assert_eq!(front.get(), 200, "over TLS");
        assert!(node.seen().heads[0].contains("X-Forwarded-Proto: https"));
        let plain = "GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
        let answer = front.send(plain);
        let to = format!("Location: {}/a?b=c\r\n", front.nginx.url());
        assert!(answer.starts_with("HTTP/1.1 308 ") && answer.contains(&to), "{answer}");
    }
    let version = Command::new("curl").arg("--version").output();
    let version = version.map(|output| String::from_utf8(output.stdout).unwrap());
    if !version.is_ok_and(|text| text.contains("HTTP2")) {
        skip!(false, "no curl with HTTP/2 here");
        return;
    }
    let node = Node::start(OK);
    let front = Front::of(&[node.address], Profile::Tuned, Some(certificate(files.path())));
    let asked = Command::new("curl")
        .args(["-sk", "--http2", "-o", "/dev/null", "-w", "%{http_version} %{http_code}"])
        .arg(front.nginx.url())
        .finish();
    assert_eq!(String::from_utf8(asked.stdout).unwrap(), "2 200");
}

#[test]
fn a_killed_balancer_comes_back_at_its_addresses() {
    let files = tempfile::tempdir().unwrap();
    let node = Node::start(OK);
    let tls = Some(certificate(files.path()));
    let mut front = Front::of(&[node.address], Profile::Tuned, tls);
    let (url, port) = (front.nginx.url(), front.nginx.port());
    signal(front.nginx.pid(), rustix::process::Signal::KILL);
    until("its end is seen", || front.nginx.exit());
    front.nginx.restart(&supervisor()).unwrap();
    assert_eq!((front.nginx.url(), front.nginx.port()), (url, port));
    assert_eq!(front.get(), 200);
}

#[test]
fn a_missing_certificate_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = Certificate { chain: "/does/not/exist".into(), key: "/nor/this".into() };
    let (nodes, profile) = (vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 1))], Profile::Tuned);
    let balancer = Balancer { nodes, profile, workers: None, certificate: Some(certificate) };
    let error = Nginx::balancer(&supervisor(), dir.path(), &balancer).unwrap_err();
    assert!(error.to_string().contains("/does/not/exist"), "{error}");
}
