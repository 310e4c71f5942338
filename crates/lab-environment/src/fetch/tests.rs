use std::net::TcpListener;
use std::thread;

use super::*;

/// Starts a server that answers each connection with the next of these texts, and returns its
/// address.
fn serve(answers: Vec<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for answer in answers {
            let (mut socket, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(socket.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            socket.write_all(&answer).unwrap();
        }
    });
    address
}

fn get(outside: &Outside, url: &str) -> Result<(u16, Vec<u8>), FetchError> {
    let mut response = outside.fetch(FetchMethod::Get, url, true)?;
    let mut bytes = vec![];
    response.body.read_to_end(&mut bytes)?;
    Ok((response.status, bytes))
}

#[test]
fn only_mapped_names_are_reachable() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec();
    let address = serve(vec![answer.clone(), answer]);
    let outside = Outside::new([("factory.example:80".to_owned(), address)].into());
    assert_eq!(get(&outside, "http://factory.example/x").unwrap(), (200, b"hello".to_vec()));
    assert_eq!(get(&outside, &format!("http://{address}/x")).unwrap().0, 200);
    for url in ["http://factory.example:81/", "http://192.0.2.1/", "http://other.example/"] {
        let error = get(&outside, url).unwrap_err();
        assert!(matches!(error, FetchError::UnknownHost(_)), "{url}: {error:?}");
    }
    assert_eq!(
        get(&outside, "http://other.example/").unwrap_err().in_wgets_words(),
        "wget: unable to resolve host address 'other.example'"
    );
}

#[test]
fn bodies_with_length_chunks_or_close_are_read() {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
        3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nTrailer: x\r\n\r\n";
    let until_end = b"HTTP/1.0 404 Not Found\r\n\r\nnothing";
    let moved = b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n";
    let address = serve(vec![moved.to_vec(), chunked.to_vec(), until_end.to_vec()]);
    let url = format!("http://{address}/");
    assert_eq!(get(&Outside::default(), &url).unwrap(), (200, b"hello".to_vec()));
    assert_eq!(get(&Outside::default(), &url).unwrap(), (404, b"nothing".to_vec()));
}

#[test]
fn truncated_bodies_are_errors() {
    let answers = [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"hello",
        b"",
    ];
    let address = serve(answers.map(<[u8]>::to_vec).into());
    for _ in answers {
        let error = get(&Outside::default(), &format!("http://{address}/")).unwrap_err();
        assert!(matches!(error, FetchError::Broken(_)), "{error:?}");
    }
}

#[test]
fn a_closed_port_is_reported_like_wget() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = get(&Outside::default(), &format!("http://{address}/")).unwrap_err();
    let text = format!("Connecting to {address}... failed: Connection refused.");
    assert_eq!(error.in_wgets_words(), text);
}

#[test]
fn urls_are_read_as_wget_reads_them() {
    let authority = |text| parse(text).map(|url| (url.https, url.authority(), url.target()));
    let read = |text| authority(text).unwrap();
    assert_eq!(read("HTTP://me:pw@host?q#f"), (false, "host".to_owned(), "/?q".to_owned()));
    assert_eq!(read("https://host:444/a/b?c"), (true, "host:444".to_owned(), "/a/b?c".to_owned()));
    assert_eq!(read("http://[::1]:81/x"), (false, "[::1]:81".to_owned(), "/x".to_owned()));
    for text in ["", "x", "ftp://a/b", "http://", "http://a b/", "http://a:b/", "http://a/\r\nX"] {
        assert!(matches!(authority(text), Err(FetchError::NotAUrl)), "{text}");
    }
}
