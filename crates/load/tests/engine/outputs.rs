//! Outputs of single values, and the limit on requests per second.

use std::io::Read as _;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use madang_load::{ExitStatus, Layer, OutputSpec};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::support::{Request, Script, Server, ok, reserve_port, response};
use crate::tls::server_config;

fn output(text: &str) -> OutputSpec {
    OutputSpec::parse(text, |_| None).unwrap()
}

#[test]
fn every_value_of_all_loops_is_in_all_files() {
    let server = Server::start(|_| ok("fine"));
    let mut script = Script::body("http.get(URL)").against(&server);
    let (plain, packed) = (script.path("values.json"), script.path("values.csv.gz"));
    script.config.outputs = vec![
        output(&format!("json={}", plain.display())),
        output(&format!("csv={}", packed.display())),
    ];
    script.config.event_loops = Some(2);
    let layer = Layer { vus: Some(4), iterations: Some(200), ..Layer::default() };
    let ran = script.options(layer).run_and_keep(|| {
        let json = std::fs::read_to_string(&plain).unwrap();
        let values: Vec<serde_json::Value> =
            json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |name: &str| {
            let is = |line: &&serde_json::Value| line["type"] == "Point" && line["metric"] == name;
            values.iter().filter(is).count()
        };
        assert_eq!((of("http_reqs"), of("iterations"), of("data_sent")), (200, 200, 200));
        let mut csv = String::new();
        let file = std::fs::File::open(&packed).unwrap();
        flate2::read::GzDecoder::new(file).read_to_string(&mut csv).unwrap();
        let of = |name: &str| csv.lines().filter(|line| line.starts_with(name)).count();
        assert_eq!((of("http_req_duration,"), of("metric_name,")), (200, 1));
    });
    assert_eq!(ran.status, ExitStatus::Success, "{:?}", ran.messages);
}

#[test]
fn a_file_that_cannot_be_written_is_told() {
    let mut script = Script::body("");
    script.config.outputs = vec![output("json=/does/not/exist")];
    let ran = script.run_once();
    assert_eq!(ran.status, ExitStatus::Failure);
    assert!(ran.said("cannot write the output json (/does/not/exist)"), "{:?}", ran.messages);
    script.config.outputs = vec![output("csv=/dev/full")];
    let ran = script.run();
    assert_eq!(ran.status, ExitStatus::Failure);
    assert!(ran.said("cannot write the output csv (/dev/full)"), "{:?}", ran.messages);
}

#[test]
fn values_are_pushed_to_a_database() {
    let database = Server::start(|_| response("204 No Content", "", ""));
    let server = Server::start(|_| ok("fine"));
    let address = database.url("/").replace("://", "://u:p@");
    let mut script = Script::body("http.get(URL)").against(&server);
    script.config.outputs = vec![output(&format!("influxdb={address}mine?pushInterval=100ms"))];
    script.config.event_loops = Some(2);
    let layer = Layer { vus: Some(4), iterations: Some(200), ..Layer::default() };
    let ran = script.options(layer).run();
    assert_eq!(ran.status, ExitStatus::Success, "{:?}", ran.messages);
    let requests = database.requests();
    let [first, pushes @ ..] = &*requests else { panic!("no requests") };
    assert_eq!(first.path(), "/query?db=&q=CREATE+DATABASE+mine");
    let mut points = 0;
    for push in pushes {
        assert_eq!(push.path(), "/write?consistency=&db=mine&precision=ns&rp=");
        assert_eq!(push.header("authorization"), Some("Basic dTpw"));
        points += push.body.lines().filter(|line| line.starts_with("http_reqs,")).count();
    }
    assert_eq!(points, 200);
}

#[test]
fn a_database_that_refuses_is_told_and_may_come_back() {
    let asked = std::sync::atomic::AtomicU32::new(0);
    let answer = move |_: &Request| match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        1 => response("500 Internal Server Error", "", "no space"),
        _ => response("204 No Content", "", ""),
    };
    let database = Arc::new(Server::start(answer));
    // The load goes on until the database was asked twice more.
    let watched = database.clone();
    let server = Server::start(move |_| ok(&watched.requests().len().to_string()));
    let body = "for (let i = 0; i < 600 && http.get(URL).body < 4; i++) sleep(0.1);";
    let mut script = Script::body(body).against(&server);
    let address = database.url("/mine?pushInterval=100ms");
    script.config.outputs = vec![output(&format!("influxdb={address}"))];
    let ran = script.run();
    assert!(ran.said("cannot write the output InfluxDBv1"), "{:?}", ran.messages);
    assert!(ran.said("the server answers 500 no space"), "{:?}", ran.messages);
    assert_eq!(ran.status, ExitStatus::Failure);
    assert!(database.requests().len() > 3, "{}", database.requests().len());
    let (_reserved, free) = reserve_port();
    let mut script = Script::body("");
    script.config.outputs = vec![output(&format!("influxdb=http://{free}"))];
    let ran = script.run();
    assert!(ran.said("connection refused"), "{:?}", ran.messages);
    assert_eq!(ran.status, ExitStatus::Failure);
}

#[test]
fn sums_are_pushed_to_servers_of_prometheus_and_opentelemetry() {
    let collector = Server::start(|_| ok(""));
    let server = Server::start(|_| ok("fine"));
    let host = collector.address.to_string();
    let variable = |name: &str| {
        Some(match name {
            "K6_PROMETHEUS_RW_SERVER_URL" => collector.url("/api/v1/write"),
            "K6_PROMETHEUS_RW_BEARER_TOKEN" => "secret".to_owned(),
            "K6_PROMETHEUS_RW_STALE_MARKERS" | "K6_OTEL_HTTP_EXPORTER_INSECURE" => {
                "true".to_owned()
            }
            // Only at the end, however long it takes.
            "K6_PROMETHEUS_RW_PUSH_INTERVAL" | "K6_OTEL_EXPORT_INTERVAL" => "1h".to_owned(),
            "K6_OTEL_EXPORTER_PROTOCOL" => "http/protobuf".to_owned(),
            "K6_OTEL_HTTP_EXPORTER_ENDPOINT" => host.clone(),
            "K6_OTEL_HEADERS" => "X-Tenant=shop".to_owned(),
            _ => return None,
        })
    };
    let mut script = Script::body("http.get(URL)").against(&server);
    script.config.outputs = ["experimental-prometheus-rw", "opentelemetry"]
        .map(|name| OutputSpec::parse(name, variable).unwrap())
        .to_vec();
    let layer = Layer { vus: Some(2), iterations: Some(20), ..Layer::default() };
    let ran = script.options(layer).run();
    assert_eq!(ran.status, ExitStatus::Success, "{:?}", ran.messages);
    let requests = collector.requests();
    let to = |path: &str| requests.iter().filter(|one| one.path() == path).collect::<Vec<_>>();
    let [values, end] = to("/api/v1/write")[..] else { panic!("{requests:?}") };
    assert_eq!(values.header("content-encoding"), Some("snappy"));
    assert_eq!(values.header("authorization"), Some("Bearer secret"));
    for pushed in [values, end] {
        assert!(pushed.body.contains("k6_iterations_total"), "{:?}", pushed.body);
    }
    let [exported] = to("/v1/metrics")[..] else { panic!("{requests:?}") };
    assert_eq!(exported.header("content-type"), Some("application/x-protobuf"));
    assert_eq!(exported.header("x-tenant"), Some("shop"));
    assert!(exported.body.contains("http_req_failed.total"), "{:?}", exported.body);
}

trait Both: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Both for T {}

/// A gRPC server that says this status at the end of every call; what it is asked is sent on. With TLS it prefers
/// HTTP/1.1 to HTTP/2.
fn grpc_server(status: &'static str, tls: bool) -> (SocketAddr, mpsc::Receiver<(String, Vec<u8>)>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = mpsc::channel();
    let config = tls.then(|| server_config(&[b"http/1.1", b"h2"]));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let stream: Box<dyn Both> = match &config {
                    None => Box::new(stream),
                    Some(config) => {
                        let acceptor = tokio_rustls::TlsAcceptor::from(config.clone());
                        let stream = acceptor.accept(stream).await.unwrap();
                        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
                        Box::new(stream)
                    }
                };
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let sender = sender.clone();
                    tokio::spawn(async move {
                        let (head, mut body) = request.into_parts();
                        let mut message = Vec::new();
                        while let Some(Ok(data)) = body.data().await {
                            message.extend_from_slice(&data);
                        }
                        sender.send((head.uri.path().to_owned(), message)).unwrap();
                        let head =
                            http::Response::builder().header("content-type", "application/grpc");
                        let mut stream =
                            respond.send_response(head.body(()).unwrap(), false).unwrap();
                        let mut trailers = http::HeaderMap::new();
                        trailers.insert("grpc-status", status.parse().unwrap());
                        trailers.insert("grpc-message", "no room".parse().unwrap());
                        stream.send_trailers(trailers).unwrap();
                    });
                }
            }
        });
    });
    (address, receiver)
}

#[test]
fn metrics_are_exported_by_grpc() {
    for (status, tls, expected) in [
        ("0", false, ExitStatus::Success),
        ("0", true, ExitStatus::Success),
        ("8", false, ExitStatus::Failure),
    ] {
        let (address, calls) = grpc_server(status, tls);
        let variable = |name: &str| match name {
            "K6_OTEL_GRPC_EXPORTER_ENDPOINT" => Some(address.to_string()),
            "K6_OTEL_GRPC_EXPORTER_INSECURE" => Some((!tls).to_string()),
            "K6_OTEL_TLS_INSECURE_SKIP_VERIFY" => Some(tls.to_string()),
            _ => None,
        };
        let mut script = Script::body("");
        script.config.outputs = vec![OutputSpec::parse("opentelemetry", variable).unwrap()];
        let ran = script.run();
        assert_eq!(ran.status, expected, "{:?}", ran.messages);
        assert_eq!(ran.said("the server answers gRPC status 8 no room"), status == "8");
        let (path, message) = calls.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(path, "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export");
        let length = u32::from_be_bytes(message[1..5].try_into().unwrap());
        assert_eq!((message[0], length as usize), (0, message.len() - 5));
        assert!(message.windows(10).any(|part| part == b"iterations"));
    }
}

#[test]
fn requests_of_all_users_are_spaced() {
    let server = Server::start(|_| ok(""));
    let script = Script::body("http.get(URL)").against(&server);
    let layer = Layer { vus: Some(4), iterations: Some(9), rps: Some(40), ..Layer::default() };
    let begin = Instant::now();
    let ran = script.options(layer).run();
    // Eight gaps of 25 ms.
    assert!(begin.elapsed() >= Duration::from_millis(200), "{:?}", begin.elapsed());
    assert_eq!(ran.report().requests.total, 9);
}
