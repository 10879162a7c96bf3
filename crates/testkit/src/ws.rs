//! The line protocol over a WebSocket: a message a line.

use std::net::TcpStream;

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest as _;
use tungstenite::{Error, Message};

use crate::GUARD;
use crate::http::Http;

#[derive(Debug)]
pub struct WebSocket {
    socket: tungstenite::WebSocket<TcpStream>,
    next_id: u64,
}

impl WebSocket {
    #[track_caller]
    pub fn open(http: &Http) -> WebSocket {
        let mut request = format!("ws://{}/v1/ws", http.address).into_client_request().expect("an address");
        let token = format!("Bearer {}", http.token).parse().expect("a header");
        request.headers_mut().insert("authorization", token);
        let stream = http.connect();
        stream.set_read_timeout(Some(GUARD)).expect("a timeout");
        let (socket, _) = tungstenite::client(request, stream).expect("a WebSocket");
        WebSocket { socket, next_id: 1 }
    }

    #[track_caller]
    pub fn send(&mut self, text: &str) {
        self.socket.send(Message::text(text)).expect("the daemon takes a message");
    }

    /// The next message; `None` when the daemon has closed.
    #[track_caller]
    pub fn next_message(&mut self) -> Option<Value> {
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).expect("JSON")),
                Ok(Message::Close(_)) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => return None,
                Ok(_) => {}
                Err(error) => panic!("the WebSocket broke: {error}"),
            }
        }
    }

    /// The response to one request; its events are passed over.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"id": id, "method": method, "params": params}).to_string());
        loop {
            let message = self.next_message().expect("an answer");
            if message["id"] == id && message.get("ok").is_some() {
                return message;
            }
        }
    }

    #[track_caller]
    pub fn ok(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params);
        assert_eq!(answer["ok"], true, "{method}: {answer}");
        answer["data"].clone()
    }

    pub fn close(&mut self) {
        // It may be closed already.
        let _closed = self.socket.close(None);
    }
}
