//! Our stdin to the command's, chunk by chunk, each taken before the next is read.

use std::io::{IsTerminal as _, Read as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::sync::{mpsc, watch};
use trl_client::Client;
use trl_protocol::exec::{Encoding, WriteParams};
use trl_protocol::{ExecId, methods};

use crate::verbs::send_input::write_id;

const CHUNK: usize = 256 * 1024;

/// That stdin is to be passed on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input;

/// A pipe or a file is meant for the command; a terminal only if the person says so.
pub(super) fn choose(asked: bool, refused: bool) -> Option<Input> {
    let pass = asked || (!refused && !std::io::stdin().is_terminal() && !is_null_device());
    pass.then_some(Input)
}

/// `/dev/null` is what the command has anyway.
fn is_null_device() -> bool {
    let same = |null: rustix::fs::Stat| {
        rustix::fs::fstat(std::io::stdin())
            .is_ok_and(|ours| ours.st_rdev == null.st_rdev && ours.st_mode == null.st_mode)
    };
    rustix::fs::stat("/dev/null").is_ok_and(same)
}

/// Until our stdin ends, or the command takes no more.
pub(super) async fn feed(client: &Client, mut exec: watch::Receiver<Option<ExecId>>, _: Input) {
    let Ok(Some(exec)) = exec.wait_for(Option::is_some).await.map(|id| *id) else { return };
    let mut chunks = read();
    let mut index = 0;
    loop {
        let chunk = chunks.recv().await;
        let params = WriteParams {
            exec_id: exec.to_string(),
            data: STANDARD.encode(chunk.as_deref().unwrap_or_default()),
            encoding: Encoding::Base64,
            eof: chunk.is_none(),
            write_id: Some(write_id(index)),
            ..WriteParams::default()
        };
        // A command that has ended or closed its stdin ends us as SIGPIPE would; how it
        // ended is told by its result.
        if client.call::<methods::ExecWrite>(&params).await.is_err() || chunk.is_none() {
            return;
        }
        index += 1;
    }
}

/// A thread of its own, since a terminal or a pipe may never give another byte; the
/// process does not wait for it.
fn read() -> mpsc::Receiver<Vec<u8>> {
    let (sender, chunks) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut buffer = vec![0; CHUNK];
        while let Ok(count @ 1..) = stdin.read(&mut buffer) {
            if sender.blocking_send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    chunks
}
