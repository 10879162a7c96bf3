//! The body of a request, within a limit of bytes and of time.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::StatusCode;
use axum::response::Response;
use trl_protocol::{Code, Fault, limits};

use super::answer;

/// How long the rest of one that is too long is read, so that its sender gets to the answer.
const DRAIN: Duration = Duration::from_secs(5);

/// All of it, or why not.
pub(crate) async fn read(mut body: Body, patience: Duration) -> Result<Vec<u8>, Box<Response>> {
    match tokio::time::timeout(patience, collect(&mut body)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(Broken::TooLong)) => {
            let rest = async { while let Some(Ok(_)) = next(&mut body).await {} };
            // What cannot be read in time is not worth waiting for.
            let _ = tokio::time::timeout(DRAIN, rest).await;
            let problem = format!("the body is longer than {} bytes", limits::MAX_LINE_BYTES);
            Err(Box::new(answer::fault(Fault::new(Code::PayloadTooLarge, problem))))
        }
        Ok(Err(Broken::Unreadable(problem))) => {
            let problem = format!("the body cannot be read: {problem}");
            Err(Box::new(answer::fault(Fault::new(Code::ParseError, problem))))
        }
        Err(_) => {
            let problem = format!("the body did not come within {} s", patience.as_secs_f64());
            Err(Box::new(answer::refusal(StatusCode::REQUEST_TIMEOUT, Fault::new(Code::ParseError, problem))))
        }
    }
}

enum Broken {
    TooLong,
    Unreadable(String),
}

async fn collect(body: &mut Body) -> Result<Vec<u8>, Broken> {
    if body.size_hint().lower() > limits::MAX_LINE_BYTES as u64 {
        return Err(Broken::TooLong);
    }
    let mut bytes = Vec::new();
    while let Some(part) = next(body).await {
        let part = part.map_err(|error| Broken::Unreadable(error.to_string()))?;
        if bytes.len() + part.len() > limits::MAX_LINE_BYTES {
            return Err(Broken::TooLong);
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes)
}

async fn next(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await?;
    Some(frame.map(|frame| frame.into_data().unwrap_or_default()))
}
