//! The routes: who may, which request it is, what is answered.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;
use tokio::net::TcpListener;
use trl_client::Client;

use crate::exception::{Exception, answer};
use crate::execute::{self, Execute};
use crate::files;
use crate::multipart::Form;
use crate::repeats::Answer;
use crate::requests::{Action, Create, Named};
use crate::shell::Shell;
use crate::state::{Settings, Shared};

/// Largest body: an archive that is uploaded.
const MAX_BODY: usize = 1 << 30;
/// Requests that are under way when the server is told to end have this long.
const GRACE: Duration = Duration::from_secs(2);

/// Answers until `end` resolves, then ends every session that was made.
pub fn serve(
    listener: TcpListener,
    client: Arc<Client>,
    settings: Settings,
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
) -> Pin<Box<dyn Future<Output = std::io::Result<()>> + Send>> {
    Box::pin(serve_until(listener, client, settings, end))
}

async fn serve_until(
    listener: TcpListener,
    client: Arc<Client>,
    settings: Settings,
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
) -> std::io::Result<()> {
    let shared = Arc::new(Shared::new(client, settings));
    let router = Router::new().fallback(handle).with_state(Arc::clone(&shared));
    let (told, over) = tokio::sync::oneshot::channel();
    let ending = async move {
        end.await;
        // The server has ended by itself if nobody listens.
        let _ = told.send(());
    };
    let serving = axum::serve(listener, router).with_graceful_shutdown(ending);
    let too_long = async move {
        match over.await {
            Ok(()) => tokio::time::sleep(GRACE).await,
            Err(_) => std::future::pending().await,
        }
    };
    let served = tokio::select! {
        served = serving => served,
        () = too_long => Ok(()),
    };
    shared.end().await;
    served
}

/// Every request comes here: the token is asked for before anything else.
async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    if let Some(refused) = refused(&shared.settings.auth_token, request.headers()) {
        return refused;
    }
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        return detail(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large");
    };
    let id = parts.headers.get("x-request-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    // A task of its own: a client that gives up and asks again finds its request under way.
    let work = tokio::spawn(async move {
        let route = || route(&shared, &parts.method, parts.uri.path(), &parts.headers, body);
        match id {
            None => stored(route().await).await,
            Some(id) => shared.repeats.once(&id, || async { stored(route().await).await }).await,
        }
    });
    match work.await {
        Ok(Answer { status, headers, body }) => {
            let mut response = Response::new(Body::from(body));
            (*response.status_mut(), *response.headers_mut()) = (status, headers);
            response
        }
        Err(error) => Exception::internal(error).into_response(),
    }
}

async fn stored(response: Response) -> Answer {
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    Answer { status: parts.status, headers: parts.headers, body }
}

fn refused(token: &str, headers: &HeaderMap) -> Option<Response> {
    let Some(key) = headers.get("x-api-key") else {
        return Some(detail(StatusCode::FORBIDDEN, "Not authenticated"));
    };
    let is_right: bool = key.as_bytes().ct_eq(token.as_bytes()).into();
    (!is_right).then(|| detail(StatusCode::UNAUTHORIZED, "Invalid API Key"))
}

fn detail(status: StatusCode, text: &str) -> Response {
    answer(status, &json!({"detail": text}))
}

async fn route(shared: &Shared, method: &Method, path: &str, headers: &HeaderMap, body: Bytes) -> Response {
    let done = match (method.as_str(), path) {
        ("GET", "/") => Ok(json!({"message": "hello world"})),
        ("GET", "/is_alive") => Ok(json!({"is_alive": true, "message": ""})),
        ("POST", "/create_session") => match parsed(&body) {
            Ok(request) => create_session(shared, request).await,
            Err(problem) => return detail(StatusCode::UNPROCESSABLE_ENTITY, &problem),
        },
        ("POST", "/run_in_session") => match action(&body) {
            Ok(request) => run_in_session(shared, request).await,
            Err(problem) => return detail(StatusCode::UNPROCESSABLE_ENTITY, &problem),
        },
        ("POST", "/close_session") => match parsed(&body) {
            Ok(request) => close_session(shared, request).await,
            Err(problem) => return detail(StatusCode::UNPROCESSABLE_ENTITY, &problem),
        },
        ("POST", "/execute") => match parsed::<Execute>(&body) {
            Ok(request) => execute::execute(shared, request).await,
            Err(problem) => return detail(StatusCode::UNPROCESSABLE_ENTITY, &problem),
        },
        ("POST", "/read_file") => match parsed(&body) {
            Ok(request) => files::read(shared, request).await,
            Err(problem) => return detail(StatusCode::UNPROCESSABLE_ENTITY, &problem),
        },
        ("POST", "/write_file") => match parsed(&body) {
            Ok(request) => files::write(shared, request).await,
            Err(problem) => return detail(StatusCode::UNPROCESSABLE_ENTITY, &problem),
        },
        ("POST", "/upload") => {
            let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
            match Form::parse(content_type.unwrap_or_default(), &body) {
                Some(form) => files::upload(shared, form).await,
                None => return detail(StatusCode::UNPROCESSABLE_ENTITY, "a form is expected"),
            }
        }
        ("POST", "/close") => {
            shared.close().await;
            Ok(json!({}))
        }
        _ => return detail(StatusCode::NOT_FOUND, "Not Found"),
    };
    match done {
        Ok(value) => answer(StatusCode::OK, &value),
        Err(exception) => exception.into_response(),
    }
}

/// The request, or what is wrong with it.
fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

/// An action without a type is a command.
fn action(body: &[u8]) -> Result<Action, String> {
    let mut value: Value = parsed(body)?;
    if let Some(fields) = value.as_object_mut() {
        fields.entry("action_type").or_insert_with(|| json!("bash"));
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

async fn create_session(shared: &Shared, request: Create) -> Result<Value, Exception> {
    let shell = Arc::new(Shell::default());
    shared.add(&request.session, Arc::clone(&shell)).await?;
    match shell.start(shared, &request).await {
        Ok(output) => Ok(json!({"output": output, "session_type": "bash"})),
        Err(exception) => {
            shared.remove(&request.session).await;
            shell.close(shared).await;
            Err(exception)
        }
    }
}

async fn run_in_session(shared: &Shared, action: Action) -> Result<Value, Exception> {
    match action {
        Action::Bash(action) => shared.shell(&action.session).await?.run(shared, &action).await,
        Action::BashInterrupt(action) => {
            shared.shell(&action.session).await?.interrupt(shared, &action).await
        }
    }
}

async fn close_session(shared: &Shared, request: Named) -> Result<Value, Exception> {
    let shell =
        shared.remove(&request.session).await.ok_or_else(|| Exception::no_session(&request.session))?;
    shell.close(shared).await;
    Ok(json!({"session_type": "bash"}))
}
