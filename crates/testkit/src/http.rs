//! A plain HTTP client: bytes out, one response in. It follows nothing and hides nothing.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use crate::GUARD;

/// Where a daemon serves HTTP, and the token that it asks for.
#[derive(Debug, Clone)]
pub struct Http {
    pub address: SocketAddr,
    pub token: String,
}

/// What came back.
#[derive(Debug, Clone)]
pub struct HttpAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl HttpAnswer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }
}

impl Http {
    /// A request with the token; headers given here come on top.
    #[track_caller]
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> HttpAnswer {
        let token = format!("Bearer {}", self.token);
        let mut all = vec![("Authorization", token.as_str())];
        all.extend(headers);
        self.ask_bare(method, path, &all, body)
    }

    /// A request with these headers, and a host unless they name one.
    #[track_caller]
    pub fn ask_bare(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> HttpAnswer {
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut stream = self.connect();
        stream.write_all(format!("{head}\r\n").as_bytes()).expect("the daemon takes the head");
        // It may answer without reading all of it.
        let _refused = stream.write_all(body);
        read_answer(&mut BufReader::new(stream))
    }

    /// One request of the line protocol; the whole response.
    #[track_caller]
    pub fn call(&self, method: &str, params: Value) -> HttpAnswer {
        let body = json!({"id": 1, "method": method, "params": params}).to_string();
        self.ask("POST", "/v1/rpc", &[("Content-Type", "application/json")], body.as_bytes())
    }

    /// The data of a request that must succeed.
    #[track_caller]
    pub fn ok(&self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params);
        assert_eq!(answer.status, 200, "{method}: {}", answer.text());
        answer.json()["data"].clone()
    }

    #[track_caller]
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(GUARD)).expect("a timeout");
        stream
    }
}

/// One response: its head, and its body by length, by chunks, or up to the end.
#[track_caller]
pub fn read_answer(stream: &mut BufReader<TcpStream>) -> HttpAnswer {
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).expect("a line of the head");
        line.trim_end().to_owned()
    };
    let first = line();
    let status = first.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no status: {first:?}"));
    let mut headers = Vec::new();
    loop {
        let line = line();
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut answer = HttpAnswer { status, headers, body: Vec::new() };
    if status == 101 {
        return answer;
    }
    if answer.header("transfer-encoding") == Some("chunked") {
        while let Some(chunk) = read_chunk(stream) {
            answer.body.extend(chunk);
        }
    } else if let Some(length) = answer.header("content-length").and_then(|length| length.parse().ok()) {
        answer.body.resize(length, 0);
        stream.read_exact(&mut answer.body).expect("the body");
    } else {
        stream.read_to_end(&mut answer.body).expect("the body");
    }
    answer
}

/// The next chunk of a body; `None` after the last.
#[track_caller]
pub fn read_chunk(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut line = String::new();
    stream.read_line(&mut line).expect("the length of a chunk");
    let length = usize::from_str_radix(line.trim_end(), 16).expect("a length in hex");
    let mut chunk = vec![0; length + 2];
    stream.read_exact(&mut chunk).expect("a chunk");
    assert!(chunk.ends_with(b"\r\n"));
    chunk.truncate(length);
    (length > 0).then_some(chunk)
}
