//! The status channel: what the shell prints as its prompt.
//!
//! The prompt is an invisible terminal string, `ESC _ trl ; nonce ; status ;
//! flags ; count ; cwd BEL`, expanded and written by the shell itself just before it reads
//! its next line. No command runs for it, so nothing that a user defines, disables
//! or traces can come between, and `$?` stays what it was.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub status: i32,
    /// `$-`, where the shell has it.
    pub flags: String,
    /// How many lines the shell has taken, where its prompt can tell: a new number is
    /// the answer to a new line, never an old prompt printed again.
    pub count: String,
    pub cwd: String,
}

/// What the shell wrote between two reads of its input.
#[derive(Debug, PartialEq, Eq)]
pub struct Heard {
    /// The last whole report. None if the user has replaced the prompt.
    pub report: Option<Report>,
    /// Everything else: job notices, traces of our own lines, complaints.
    pub noise: String,
}

/// What every prompt, and the line that sets it, has in it.
pub const MARK: &str = "_trl;";

pub fn opening(nonce: &str) -> String {
    ["\x1b", MARK, nonce, ";"].concat()
}

pub fn listen(bytes: &[u8], nonce: &str) -> Heard {
    let text = super::text::of(bytes);
    let mark = opening(nonce);
    let (before, last) = match text.rsplit_once(mark.as_str()) {
        Some((before, last)) => (before, Some(last)),
        None => (text.as_ref(), None),
    };
    let report = last.and_then(read_report);
    let noise =
        before.split(mark.as_str()).map(|piece| piece.rsplit_once('\x07').map_or(piece, |(_, rest)| rest));
    Heard { report, noise: noise.collect() }
}

/// `status;flags;count;cwd BEL`. The cwd may hold anything, a BEL too: the last one ends it.
fn read_report(text: &str) -> Option<Report> {
    let (body, _) = text.rsplit_once('\x07')?;
    let mut fields = body.splitn(4, ';');
    let status = fields.next()?.parse().ok()?;
    let mut field = || fields.next().map(str::to_owned);
    Some(Report { status, flags: field()?, count: field()?, cwd: field()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_report_counts_and_the_rest_is_noise() {
        let heard =
            listen(b"[1]+ Done\n\x1b_trl;ab;0;him;6;/old\x07\x1b_trl;ab;130;himx;7;/a;b\x07c\x07", "ab");
        assert_eq!(
            heard.report,
            Some(Report { status: 130, flags: "himx".into(), count: "7".into(), cwd: "/a;b\x07c".into() })
        );
        assert_eq!(heard.noise, "[1]+ Done\n");
    }

    #[test]
    fn a_prompt_of_the_users_own_is_no_report() {
        for bytes in [&b"foo> "[..], b"", b"\x1b_trl;xx;0;;;/\x07", b"\x1b_trl;ab;$?;$-;;${PWD-}\x07"] {
            assert_eq!(listen(bytes, "ab").report, None);
        }
    }

    #[test]
    fn a_prompt_around_ours_still_reports() {
        let heard = listen(b"(venv) \x1b_trl;ab;7;;;/tmp\x07", "ab");
        assert_eq!(heard.report.map(|r| r.status), Some(7));
    }
}
