use std::net::TcpListener;
use std::thread;

use super::*;

/// Answers each connection with the next of these texts, and gives its address.
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
    let mut response = outside.fetch(Method::Get, url, true)?;
    let mut bytes = vec![];
    response.body.read_to_end(&mut bytes)?;
    Ok((response.status, bytes))
}

#[test]
fn names_are_reached_only_through_the_map() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec();
    let address = serve(vec![answer.clone(), answer]);
    let outside = Outside {
        reach: [("factory.example:80".to_owned(), address)].into(),
        ..Outside::default()
    };
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
fn bodies_come_in_three_ways() {
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
fn what_is_cut_off_is_an_error() {
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
fn nobody_listens() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = get(&Outside::default(), &format!("http://{address}/")).unwrap_err();
    let text = format!("Connecting to {address}... failed: Connection refused.");
    assert_eq!(error.in_wgets_words(), text);
}
