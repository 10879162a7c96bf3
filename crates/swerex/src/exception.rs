//! Failures as exceptions: the client makes the class that is named and raises it.

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// What SWE-ReX answers an exception with.
const STATUS: u16 = 511;

#[derive(Debug, Clone)]
pub(crate) struct Exception {
    class_path: String,
    message: String,
    extra_info: Value,
}

impl Exception {
    fn new(class_path: impl Into<String>, message: impl Into<String>) -> Exception {
        Exception { class_path: class_path.into(), message: message.into(), extra_info: json!({}) }
    }

    /// One of `swerex.exceptions`.
    pub(crate) fn swerex(class: &str, message: impl Into<String>) -> Exception {
        Exception::new(format!("swerex.exceptions.{class}"), message)
    }

    pub(crate) fn builtin(class: &str, message: impl Into<String>) -> Exception {
        Exception::new(format!("builtins.{class}"), message)
    }

    /// The time of an expectation is over.
    pub(crate) fn expectation_timeout(message: impl Into<String>) -> Exception {
        Exception::new("pexpect.exceptions.TIMEOUT", message)
    }

    pub(crate) fn new_bad_zip(problem: &str) -> Exception {
        Exception::new("zipfile.BadZipFile", problem)
    }

    pub(crate) fn no_session(name: &str) -> Exception {
        Exception::swerex("SessionDoesNotExistError", format!("session '{name}' does not exist"))
    }

    pub(crate) fn internal(error: impl ToString) -> Exception {
        Exception::builtin("RuntimeError", error.to_string())
    }

    pub(crate) fn of_daemon(error: trl_client::Error) -> Exception {
        Exception::builtin("RuntimeError", format!("trl: {error}"))
    }

    /// As Python reports it for a file.
    pub(crate) fn of_file(error: &std::io::Error, path: &str) -> Exception {
        use std::io::ErrorKind;
        let class = match error.kind() {
            ErrorKind::NotFound => "FileNotFoundError",
            ErrorKind::PermissionDenied => "PermissionError",
            ErrorKind::IsADirectory => "IsADirectoryError",
            ErrorKind::NotADirectory => "NotADirectoryError",
            ErrorKind::AlreadyExists => "FileExistsError",
            _ => "OSError",
        };
        let number = error.raw_os_error().unwrap_or_default();
        let said = error.to_string();
        let said = said.split(" (os error").next().unwrap_or(&said);
        Exception::builtin(class, format!("[Errno {number}] {said}: '{path}'"))
    }

    pub(crate) fn with_extra_info(mut self, extra_info: Value) -> Exception {
        self.extra_info = extra_info;
        self
    }
}

impl IntoResponse for Exception {
    fn into_response(self) -> Response {
        let Exception { class_path, message, extra_info } = self;
        let transfer =
            json!({"message": message, "class_path": class_path, "traceback": "", "extra_info": extra_info});
        let status = StatusCode::from_u16(STATUS).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        answer(status, &json!({"swerexception": transfer}))
    }
}

pub(crate) fn answer(status: StatusCode, body: &Value) -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    (status, json, Body::from(body.to_string())).into_response()
}
