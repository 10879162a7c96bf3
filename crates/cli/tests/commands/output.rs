//! Every byte a command writes arrives as it was written, on its own stream.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Session, Shell, daemon, in_each_shell, numbers};

/// Runs a command and returns both streams as bytes.
#[track_caller]
fn bytes_of(session: &mut Session, command: &str) -> (Vec<u8>, Vec<u8>) {
    let ran = session
        .run_with(json!({"command": command, "encoding": "base64", "max_output_bytes": 8_000_000}))
        .exits(0);
    let decode = |text: &str| STANDARD.decode(text).unwrap_or_else(|_| b"no base64".to_vec());
    let (out, err) = (decode(&ran.stdout), decode(&ran.stderr));
    assert_eq!((ran.stdout_bytes, ran.stderr_bytes), (out.len() as u64, err.len() as u64));
    assert!(!ran.stdout_truncated && !ran.stderr_truncated);
    (out, err)
}

fn a_final_newline_is_neither_added_nor_lost(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for (command, stdout, stderr) in [
        ("printf hi", "hi", ""),
        ("echo hi", "hi\n", ""),
        ("printf '\\n'", "\n", ""),
        ("printf '\\n\\n a \\n\\n'", "\n\n a \n\n", ""),
        ("printf e >&2", "", "e"),
        ("printf o; printf e >&2; printf O; printf E >&2", "oO", "eE"),
        ("printf ' '", " ", ""),
    ] {
        session.run(command).exits(0).prints(stdout, stderr);
    }
}

fn control_characters_are_kept(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for text in [
        "10%\r50%\r100%\n",
        "dos\r\nlines\r\n",
        "\r",
        "\x1b[31mred\x1b[0m \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
        "\x1b[6n\x1b[c\x1b]10;?\x07\x1b]11;?\x1b\\",
        "bell\x07back\x08del\x7f",
        "null\0byte\0",
        "\u{2028}\u{feff}\u{1f600}\u{e9}",
        "quotes \" ' \\ / \u{1}\u{1f}",
    ] {
        let octal: String = text.bytes().map(|byte| format!("\\{byte:03o}")).collect();
        let ran = session.run(&format!("printf '{octal}'; printf '{octal}' >&2")).exits(0).prints(text, text);
        assert_eq!(ran.stdout_bytes, text.len() as u64);
        assert!(ran.raw.get("stdout_lossy").is_none(), "{ran:?}");
    }
}

fn bytes_that_are_no_text_are_exact_as_bytes_and_marked_as_text(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let ran = session.run("printf '\\200\\377\\n'; printf 'ok \\303' >&2").exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("\u{fffd}\u{fffd}\n", "ok \u{fffd}"));
    assert_eq!((&ran.raw["stdout_lossy"], &ran.raw["stderr_lossy"]), (&json!(true), &json!(true)));
    assert_eq!((ran.stdout_bytes, ran.stderr_bytes), (3, 4));
    let id = ran.exec_id.clone();
    assert_eq!(session.output_of(&id, "stdout"), b"\x80\xff\n");
    assert_eq!(session.output_of(&id, "stderr"), b"ok \xc3");
    let (out, err) = bytes_of(&mut session, "printf 'a\\0b\\n'; printf '\\200' >&2");
    assert_eq!((out.as_slice(), err.as_slice()), (&b"a\0b\n"[..], &b"\x80"[..]));
}

fn a_megabyte_of_noise_is_exact(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("head -c 1M /dev/urandom >noise");
    let noise = std::fs::read(daemon.work().join("noise")).unwrap_or_default();
    assert_eq!(noise.len(), 1 << 20);
    let (out, err) = bytes_of(&mut session, "cat noise; cat noise >&2");
    assert!(out == noise && err == noise);
}

fn each_stream_keeps_its_order(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let ran = session.run("i=0; while [ $i -lt 500 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done").exits(0);
    let expected = |letter: char| (0..500).map(|number| format!("{letter}{number}\n")).collect::<String>();
    ran.prints(&expected('o'), &expected('e'));
}

fn a_long_line_comes_whole(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let command = format!("{} | tr '\\n' ' '", numbers::command(20_000_000));
    let answer = session.stream(json!({"command": command}));
    assert_eq!(answer.data()["stdout_bytes"], 20_000_000);
    let mut expected = numbers::text(0, 20_000_000);
    expected.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
    assert!(answer.output("stdout") == expected);
}

fn truncation_keeps_head_and_tail(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let ran = session.run_with(json!({"command": "i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done; echo short >&2", "max_output_bytes": 1000})).exits(0);
    let whole: String = (0..5000).map(|number| format!("line {number}\n")).collect();
    assert!(ran.stdout_truncated && !ran.stderr_truncated);
    assert_eq!(ran.stdout_bytes, whole.len() as u64);
    assert_eq!(ran.stderr, "short\n");
    check_cut(&ran.stdout, &whole, 1000);
    assert_eq!(session.output_of(&ran.exec_id, "stdout"), whole.as_bytes());
}

fn a_cut_inside_a_character_gives_valid_text(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session
        .ok("i=0; while [ $i -lt 1000 ]; do printf '\\303\\251\\360\\237\\230\\200'; i=$((i+1)); done >text");
    let whole = "\u{e9}\u{1f600}".repeat(1000);
    for limit in [100, 101, 102, 103, 104, 105, 106, 107, 1, 2, 3] {
        let ran = session.run_with(json!({"command": "cat text", "max_output_bytes": limit})).exits(0);
        assert!(ran.stdout_truncated && ran.raw.get("stdout_lossy").is_none(), "{limit}: {ran:?}");
        assert!(!ran.stdout.contains('\u{fffd}'), "{limit}: a torn character: {ran:?}");
        check_cut(&ran.stdout, &whole, limit);
    }
}

/// `shown` is a head and a tail of `whole` around one line that tells how many bytes are left out.
#[track_caller]
fn check_cut(shown: &str, whole: &str, limit: usize) {
    let cut = shown.split_once("\u{2026} ").and_then(|(head, rest)| {
        let (line, tail) = rest.split_once(" \u{2026}\n")?;
        let head = head.strip_suffix('\n').unwrap_or(head);
        Some((head, line.split(' ').next()?.parse::<usize>().ok()?, tail))
    });
    let (head, left_out, tail) = cut.unwrap_or_default();
    assert!(whole.starts_with(head) && whole.ends_with(tail), "both ends are exact: {shown:?}");
    assert_eq!(head.len() + left_out + tail.len(), whole.len(), "the count is exact: {shown:?}");
    assert!(head.len() + tail.len() <= limit, "at most {limit} bytes of output: {shown:?}");
    assert!(limit < 50 || head.len().min(tail.len()) >= limit / 4, "both ends are shown: {shown:?}");
}

fn what_is_kept_can_be_read_in_ranges(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let ran = session.run("printf 'abc\\303\\251def'; printf err >&2").exits(0);
    let mut range = |stream: &str, offset: u64, limit: u64| {
        let params = json!({"exec_id": ran.exec_id, "stream": stream, "offset": offset, "limit": limit});
        let reply = session.connection.ok(m::ExecOutput::NAME, params);
        (
            reply["text"].clone(),
            reply["offset"].as_u64(),
            reply["next_offset"].as_u64(),
            reply["total_bytes"].as_u64(),
        )
    };
    assert_eq!(range("stdout", 0, 3), (json!("abc"), Some(0), Some(3), Some(8)));
    assert_eq!(range("stdout", 5, 100), (json!("def"), Some(5), Some(8), Some(8)));
    assert_eq!(range("stdout", 8, 100), (json!(""), Some(8), Some(8), Some(8)));
    assert_eq!(range("stderr", 1, 1), (json!("r"), Some(1), Some(2), Some(3)));
    let beyond = range("stdout", 1_000_000, 100);
    assert_eq!((&beyond.0, beyond.3), (&json!(""), Some(8)), "{beyond:?}");
    let params =
        json!({"exec_id": ran.exec_id, "stream": "stdout", "offset": 3, "limit": 3, "encoding": "base64"});
    assert_eq!(
        trl_testkit::event_bytes(&session.connection.ok(m::ExecOutput::NAME, params)),
        "\u{e9}d".as_bytes()
    );
    let params = json!({"exec_id": ran.exec_id, "stream": "both"});
    session.connection.fails(m::ExecOutput::NAME, params, "INVALID_PARAMS");
    let params = json!({"exec_id": ran.exec_id, "stream": "stdout", "offset": -1});
    session.connection.fails(m::ExecOutput::NAME, params, "INVALID_PARAMS");
}

in_each_shell!(
    a_final_newline_is_neither_added_nor_lost,
    control_characters_are_kept,
    bytes_that_are_no_text_are_exact_as_bytes_and_marked_as_text,
    a_megabyte_of_noise_is_exact,
    each_stream_keeps_its_order,
    a_long_line_comes_whole,
    truncation_keeps_head_and_tail,
    a_cut_inside_a_character_gives_valid_text,
    what_is_kept_can_be_read_in_ranges,
);

#[test]
fn a_range_never_tears_a_character() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let ran = session.run("for i in {1..50}; do printf 'é日😀'; done").exits(0);
    for limit in [1, 2, 3, 4, 5, 7] {
        let (mut text, mut offset) = (String::new(), 0);
        while offset < ran.stdout_bytes {
            let params =
                json!({"exec_id": ran.exec_id, "stream": "stdout", "offset": offset, "limit": limit});
            let range = session.connection.ok(m::ExecOutput::NAME, params);
            let next = range["next_offset"].as_u64().unwrap_or_default();
            assert!(next > offset, "a range of {limit} bytes gets on: {range}");
            text.push_str(range["text"].as_str().unwrap_or_default());
            offset = next;
        }
        if limit >= 4 {
            assert_eq!(text, ran.stdout, "in ranges of {limit}");
        }
    }
}

#[test]
fn limits_of_output_that_make_no_sense_are_refused_or_harmless() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.refused(json!({"command": "true", "max_output_bytes": -1}), "INVALID_PARAMS");
    session.refused(json!({"command": "true", "max_output_bytes": "many"}), "INVALID_PARAMS");
    session.refused(json!({"command": "true", "encoding": "latin1"}), "INVALID_PARAMS");
    let ran = session.run_with(json!({"command": "printf hello", "max_output_bytes": 0})).exits(0);
    assert!(ran.stdout_truncated && ran.stdout_bytes == 5 && !ran.stdout.contains("hello"), "{ran:?}");
    let ran = session.run_with(json!({"command": "printf hello", "max_output_bytes": 5})).exits(0);
    assert!(!ran.stdout_truncated && ran.stdout == "hello", "exactly the limit is not too much: {ran:?}");
    let ran = session.run(&numbers::command(1 << 20)).exits(0);
    assert!(!ran.stdout_truncated && ran.stdout.len() == 1 << 20, "the default is 1 MiB");
    let ran = session.run(&numbers::command((1 << 20) + 1)).exits(0);
    assert!(ran.stdout_truncated);
    let whole = String::from_utf8(numbers::text(0, (1 << 20) + 1)).unwrap_or_default();
    check_cut(&ran.stdout, &whole, 1 << 20);
}
