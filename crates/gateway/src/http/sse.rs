//! A streaming request as server-sent events: each one is named as on a line and carries
//! the whole line; the last is `response`.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};
use trl_protocol::{Event, Fault, Reply};
use trl_runtime::{BoxFuture, EventSink, Gone, GrantKey};

use super::routes::Front;
use super::{answer, rpc};
use crate::request_line::Call;
use crate::written;

/// Events that may wait for a client before their command does.
const AHEAD: usize = 16;
/// A sign of life in quiet times, so that neither side takes the other for gone.
const HEARTBEAT: Duration = Duration::from_secs(15);

pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| {
        kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
    })
}

/// What refuses at once is answered with its status, like any request.
pub(crate) async fn take(front: Front, call: Call, grant: Option<GrantKey>) -> Response {
    let (to, mut said) = mpsc::channel(AHEAD);
    let id = call.id.clone();
    let events = Events { id: id.clone(), to: to.clone() };
    let under_grant = grant.is_some();
    let work = rpc::undisturbed(&front, call, events, grant);
    tokio::spawn(async move {
        tokio::select! {
            result = work => drop(to.send(SseItem::Response(id, Box::new(result))).await),
            () = to.closed() => {}
        }
    });
    let first = match said.recv().await {
        Some(SseItem::Response(id, result)) if result.is_err() => {
            return answer::to_client(&id, &result, under_grant);
        }
        first => first.map(SseItem::into_bytes),
    };
    let mut heartbeat = interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat.reset();
    answer::of(StatusCode::OK, "text/event-stream", Body::new(Stream { first, said, heartbeat }))
}

enum SseItem {
    Event(Bytes),
    Response(String, Box<Result<Reply, Fault>>),
}

impl SseItem {
    fn into_bytes(self) -> Bytes {
        match self {
            SseItem::Event(bytes) => bytes,
            SseItem::Response(id, result) => {
                framed("response", |out| written::put_response(out, &id, &result))
            }
        }
    }
}

struct Events {
    id: String,
    to: mpsc::Sender<SseItem>,
}

impl EventSink for Events {
    fn send<'a>(&'a mut self, event: Event<'a>) -> BoxFuture<'a, Result<(), Gone>> {
        let bytes = framed(event.name(), |out| written::put_event(out, &self.id, &event));
        Box::pin(async move { self.to.send(SseItem::Event(bytes)).await.map_err(|_| Gone) })
    }
}

/// A line is one line already: nothing in it needs another `data:`.
fn framed(name: &str, line: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut out = format!("event: {name}\ndata: ").into_bytes();
    line(&mut out);
    out.push(b'\n');
    out.into()
}

/// The body: what is said, as it comes.
struct Stream {
    first: Option<Bytes>,
    said: mpsc::Receiver<SseItem>,
    heartbeat: Interval,
}

impl HttpBody for Stream {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if let Poll::Ready(said) = self.said.poll_recv(context) {
            self.heartbeat.reset();
            return Poll::Ready(said.map(|said| Ok(Frame::data(said.into_bytes()))));
        }
        self.heartbeat.poll_tick(context).map(|_| Some(Ok(Frame::data(Bytes::from_static(b":\n\n")))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn events_are_wanted_where_the_client_says_so() {
        for (accept, expected) in [
            ("text/event-stream", true),
            ("application/json, text/event-stream", true),
            ("Text/Event-Stream;q=0.9", true),
            ("application/json", false),
            ("*/*", false),
            ("text/event-streams", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(is_wanted(&headers), expected, "{accept}");
        }
    }

    #[test]
    fn an_event_is_its_line() {
        let mail = trl_protocol::mail::MailEvent { count: 1, ids: Vec::new() };
        let event = Event::Mail(&mail);
        assert_eq!(
            framed(event.name(), |out| written::put_event(out, "7", &event)),
            "event: mail\ndata: {\"id\":7,\"event\":\"mail\",\"data\":{\"count\":1,\"ids\":[]}}\n\n"
        );
    }
}
