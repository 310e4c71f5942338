//! Tests of HTTP behaviour that pveproxy has as well.

use std::io::{Read as _, Write as _};

use serde_json::json;

use crate::support::{Answer, TestLab, is_closed, settings};

#[test]
fn answers_match_those_of_pveproxy() {
    let lab = TestLab::new();
    let answer = lab.get("/version");
    assert_eq!(answer.line(), (200, "OK"));
    assert_eq!(answer.version, "HTTP/1.1");
    assert_eq!(answer.header("Server"), Some("pve-api-daemon/3.0"));
    assert_eq!(answer.header("Content-Type"), Some("application/json;charset=UTF-8"));
    assert_eq!(answer.header("Cache-Control"), Some("max-age=0"));
    assert_eq!(answer.header("Pragma"), Some("no-cache"));
    assert_eq!(answer.header("Connection"), Some("Keep-Alive"));
    assert_eq!(answer.header("Date"), answer.header("Expires"));
    assert!(answer.header("Date").unwrap().ends_with(" GMT"));
    assert_eq!(answer.json()["data"]["release"], "9.2");
    lab.stop();
}

#[test]
fn connections_are_reused_for_a_hundred_requests() {
    let lab = TestLab::new();
    let mut stream = lab.connect();
    for nth in 1..=100 {
        stream.write_all(lab.text("GET", "/version", "", "").as_bytes()).unwrap();
        let answer = Answer::read(&mut stream).unwrap();
        let kept = if nth < 100 { "Keep-Alive" } else { "close" };
        assert_eq!(answer.header("Connection"), Some(kept), "{nth}");
    }
    assert!(is_closed(&mut stream));
}

#[test]
fn requests_can_be_pipelined() {
    let lab = TestLab::new();
    let mut stream = lab.connect();
    let two = lab.text("GET", "/version", "", "").repeat(2);
    stream.write_all(two.as_bytes()).unwrap();
    for _ in 0..2 {
        assert_eq!(Answer::read(&mut stream).unwrap().status, 200);
    }
}

#[test]
fn clients_can_close_the_connection() {
    let lab = TestLab::new();
    for (version, header) in [("1.1", "Connection: close\r\n"), ("1.0", "")] {
        let mut stream = lab.connect();
        let token = lab.token_header();
        let text = format!("GET /api2/json/version HTTP/{version}\r\n{token}{header}\r\n");
        stream.write_all(text.as_bytes()).unwrap();
        let answer = Answer::read(&mut stream).unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(answer.version, format!("HTTP/{version}"));
        assert_eq!(answer.header("Connection"), Some("close"));
        assert!(is_closed(&mut stream));
    }
}

#[test]
fn errors_close_the_connection_and_repeat_the_reason() {
    let lab = TestLab::new();
    let mut stream = lab.connect();
    stream.write_all(lab.text("GET", "/nosuch", "", "").as_bytes()).unwrap();
    let answer = Answer::read(&mut stream).unwrap();
    assert_eq!(answer.line(), (501, "Method 'GET /nosuch' not implemented"));
    assert_eq!(answer.header("Connection"), Some("close"));
    let body = json!({"data": null, "message": "Method 'GET /nosuch' not implemented"});
    assert_eq!(answer.json(), body);
    assert!(is_closed(&mut stream));

    let answer = lab.get("/nodes/ghost/status");
    let text = "hostname lookup 'ghost' failed - failed to get address info for: ghost: Name or \
                service not known";
    assert_eq!(answer.line(), (500, text));
    assert_eq!(answer.json()["message"], format!("{text}\n"));
}

#[test]
fn plain_http_is_redirected_to_https() {
    let lab = TestLab::new();
    for (method, status, reason) in
        [("GET", 301, "Moved Permanently"), ("POST", 308, "Permanent Redirect")]
    {
        let mut socket = lab.plain();
        let text = format!("{method} /api2/json/version?x=1 HTTP/1.1\r\nHost: pve:8006\r\n\r\n");
        socket.write_all(text.as_bytes()).unwrap();
        let answer = Answer::read(&mut socket).unwrap();
        assert_eq!(answer.line(), (status, reason));
        assert_eq!(answer.header("Location"), Some("https://pve:8006/api2/json/version?x=1"));
        assert!(is_closed(&mut socket));
    }
}

#[test]
fn tls_1_2_and_1_3_work_separately() {
    let lab = TestLab::new();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut stream = lab.connect_with(lab.tls(&[version]));
        stream.write_all(lab.text("GET", "/version", "", "").as_bytes()).unwrap();
        assert_eq!(Answer::read(&mut stream).unwrap().status, 200);
        assert_eq!(stream.conn.protocol_version(), Some(version.version));
    }
}

#[test]
fn bodies_are_rejected_like_in_pveproxy() {
    let lab = TestLab::new();
    let rejected = |method, headers: &str, body: &str| {
        let answer = lab.request(method, "/version", headers, body);
        assert_eq!(answer.text(), answer.reason, "the text is the body too");
        assert_eq!(answer.header("Connection"), Some("close"));
        (answer.status, answer.reason)
    };
    let said = |status, text: &str| (status, text.to_owned());
    assert_eq!(
        rejected("POST", "Transfer-Encoding: chunked\r\n", ""),
        said(501, "chunked transfer encoding not supported")
    );
    assert_eq!(
        rejected("POST", "Transfer-Encoding: gzip\r\n", ""),
        said(501, "Unknown transfer encoding 'gzip'")
    );
    for method in ["GET", "DELETE"] {
        let text = format!("Unexpected content for method '{method}'");
        assert_eq!(rejected(method, "", "a=1"), (501, text));
    }
    assert_eq!(
        rejected("POST", "Content-Type: text/xml\r\n", "<a/>"),
        said(506, "upload 'Content-Type 'text/xml' not implemented")
    );
    let large = format!("Content-Length: {}\r\n", 512 * 1024 + 1);
    assert_eq!(rejected("POST", &large, ""), said(501, "for data too large"));
}

#[test]
fn an_empty_body_counts_as_no_body() {
    let lab = TestLab::new();
    assert_eq!(lab.request("GET", "/version", "Content-Length: 0\r\n", "").status, 200);
}

#[test]
fn unknown_methods_are_rejected_before_authentication() {
    let lab = TestLab::new();
    for method in ["HEAD", "PATCH", "OPTIONS", "BREW"] {
        let answer = lab.raw(format!("{method} /api2/json/version HTTP/1.1\r\n\r\n"));
        assert_eq!(answer.status, 501);
        assert_eq!(answer.reason, format!("method '{method}' not available"));
        assert!(answer.body.is_empty());
    }
}

#[test]
fn request_heads_have_limits() {
    let lab = TestLab::new();
    let fits = "X-Filler: 1\r\n".repeat(59);
    assert_eq!(lab.request("GET", "/version", &fits, "").status, 200);
    let many = "X-Filler: 1\r\n".repeat(64);
    let large = format!("X-Filler: {}\r\n", "x".repeat(8 * 1024));
    for headers in [many, large] {
        let mut stream = lab.connect();
        stream.write_all(lab.text("GET", "/version", &headers, "").as_bytes()).unwrap();
        // As in pveproxy, the connection closes without an answer.
        let mut rest = vec![];
        stream.read_to_end(&mut rest).ok();
        assert_eq!(rest, b"");
    }
}

#[test]
fn malformed_http_is_rejected() {
    let lab = TestLab::new();
    let answer = |text: &str| {
        let answer = lab.raw(text);
        (answer.status, answer.reason)
    };
    let bad = (400, "bad request".to_owned());
    for text in ["hello\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/x.y\r\n\r\n", "GET / a b c\r\n\r\n"] {
        assert_eq!(answer(text), bad, "{text}");
    }
    assert_eq!(
        answer("GET / HTTP/2.0\r\n\r\n"),
        (506, "http protocol version 2.0 not supported".to_owned())
    );
    assert_eq!(
        answer("GET / HTTP/1.1\r\nno colon\r\n\r\n"),
        (506, "unable to parse request header".to_owned())
    );
    assert_eq!(answer("GET user@host/x HTTP/1.1\r\n\r\n"), (400, "invalid url".to_owned()));
    let two = "Content-Length: 3\r\nContent-Length: 4\r\n";
    assert_eq!(lab.request("POST", "/version", two, "").status, 400);
}

#[test]
fn paths_are_normalized() {
    let lab = TestLab::new();
    for path in ["/version/", "//version", "/%76ersion", "/version?_dc=1700000000000"] {
        assert_eq!(lab.get(path).status, 200, "{path}");
    }
    let token = lab.token_header();
    let whole = format!("GET https://pve/api2//json/version HTTP/1.1\r\n{token}\r\n");
    assert_eq!(lab.raw(whole).status, 200);
}

#[test]
fn other_formats_and_pages_are_as_in_pveproxy() {
    let lab = TestLab::new();
    let token = lab.token_header();
    let ask = |path: &str| lab.raw(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{token}\r\n"));

    let answer = ask("/api2/extjs/version");
    assert_eq!((answer.status, &answer.json()["success"]), (200, &json!(1)));
    let answer = ask("/api2/extjs/nosuch");
    assert_eq!(answer.line(), (200, "OK"));
    let body = answer.json();
    assert_eq!((&body["success"], &body["status"]), (&json!(0), &json!(501)));

    assert_eq!(ask("/api2/xml/version").line(), (501, "no formatter for uri /version, xml"));
    assert_eq!(ask("/api2").line(), (501, "no such uri"));
    let page = lab.raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(page.status, 200);
    assert!(page.text().contains("simulated Proxmox VE"));
    assert_eq!(ask("/nosuch").line(), (500, "no such file '/nosuch'"));
}

#[test]
fn expect_100_continue_is_answered() {
    let lab = TestLab::new();
    let mut stream = lab.connect();
    let head = "POST /api2/json/access/ticket HTTP/1.1\r\nHost: x\r\nContent-Length: 40\r\n\
                Expect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(Answer::read(&mut stream).unwrap().status, 100);
    stream.write_all(format!("{:40}", "username=root@pam&password=x").as_bytes()).unwrap();
    assert_eq!(Answer::read(&mut stream).unwrap().status, 401);
}

#[test]
fn long_answers_are_compressed_if_accepted() {
    let lab = TestLab::new();
    let path = "/access/permissions";
    let plain = lab.get(path);
    assert!(plain.body.len() > 1024 && plain.header("Content-Encoding").is_none());

    let answer = lab.request("GET", path, "Accept-Encoding: deflate, gzip\r\n", "");
    assert_eq!(answer.header("Content-Encoding"), Some("gzip"));
    let mut text = vec![];
    flate2::read::GzDecoder::new(&*answer.body).read_to_end(&mut text).unwrap();
    assert!(answer.body.len() < plain.body.len() && text == plain.body);

    let answer = lab.request("GET", path, "Accept-Encoding: deflate\r\n", "");
    assert_eq!(answer.header("Content-Encoding"), Some("deflate"));
    let mut text = vec![];
    flate2::read::ZlibDecoder::new(&*answer.body).read_to_end(&mut text).unwrap();
    assert!(text == plain.body);

    let short = lab.request("GET", "/version", "Accept-Encoding: gzip\r\n", "");
    assert_eq!(short.header("Content-Encoding"), None);
}

#[test]
fn a_lab_that_stops_closes_its_connections() {
    let lab = TestLab::start(settings());
    let mut idle = lab.connect();
    idle.write_all(lab.text("GET", "/version", "", "").as_bytes()).unwrap();
    assert_eq!(Answer::read(&mut idle).unwrap().status, 200);
    lab.stop();
    assert!(is_closed(&mut idle));
}
