//! Sending to a reader, compared with bare SQLite in the same run.
//!
//! The yardstick writes the rows that one message costs us (both stores, with the
//! same sizes and indexes of the same kind), one durable commit for each message.
//! Absolute figures depend on the disk; the ratios do not. `--check` exits with 1 if a bound is broken.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for people who measure")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trl_protocol::{Method as _, methods as m};

use rusqlite::{Connection, params};
use serde_json::{Value, json};
use trl_mail::clock::SystemClock;
use trl_mail::presence::SystemProcesses;
use trl_mail::relay::{EmbeddedLimits, EmbeddedRelay};
use trl_mail::steps::Steps;
use trl_mail::{Caller, Mail, MailConfig};
use trl_protocol::Request;

const ROUNDS: usize = 5;
const MESSAGES: usize = 2000;
const IN_FLIGHT: usize = 64;
const PINGS: usize = 200;

fn main() {
    let stored: usize =
        std::env::var("TRL_BENCH_STORED").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let holds = runtime.block_on(measure(stored));
    if !holds && std::env::args().any(|arg| arg == "--check") {
        std::process::exit(1);
    }
}

async fn ask(mail: &Mail, connection: u64, method: &str, params: Value) -> Value {
    let Request::Mail(request) = Request::parse(method, params).unwrap() else {
        unreachable!("{method} is not for the mail")
    };
    serde_json::to_value(mail.handle(request, Caller::on(connection)).await.unwrap()).unwrap()
}

/// What was measured with one size of store.
struct Figures {
    rate: f64,
    latency: Duration,
}

/// What the disk gave in the same moments.
struct Floor {
    bare: f64,
    three_commits: Duration,
}

/// Mail in a home of its own.
struct Store {
    mail: Mail,
    home: tempfile::TempDir,
}

impl Store {
    async fn open() -> Store {
        let home = tempfile::tempdir().unwrap();
        let relay = EmbeddedRelay::open(home.path(), EmbeddedLimits::default(), Steps::default()).unwrap();
        let mut config = MailConfig::new(home.path().to_owned());
        config.rate_per_minute = u32::MAX;
        config.local_rate_per_minute = u32::MAX;
        config.mailbox_messages = u64::MAX >> 1;
        let mail =
            Mail::open(config, Arc::new(SystemClock), Arc::new(SystemProcesses), Arc::new(relay)).unwrap();
        for (n, name) in ["alice", "bob", "attic"].into_iter().enumerate() {
            ask(&mail, 0, m::AgentCreate::NAME, json!({"name": name})).await;
            ask(&mail, n as u64 + 1, m::AgentUse::NAME, json!({"agent": name})).await;
        }
        exchange(&mail, 100).await;
        Store { mail, home }
    }
}

async fn measure(stored: usize) -> bool {
    let mut stores = vec![Store::open().await];
    if stored > 0 {
        let full = Store::open().await;
        let begun = Instant::now();
        fill(&full.mail, stored).await;
        println!("stored {stored} messages in {:.1} s", begun.elapsed().as_secs_f64());
        stores.push(full);
    }
    let (floor, figures) = figures(&stores).await;
    let mut holds = true;
    for (name, figures) in ["empty store".to_owned(), format!("{stored} stored")].iter().zip(&figures) {
        holds &= told(name, figures, &floor);
    }
    if let [empty, full] = &figures[..] {
        let slower = empty.rate / full.rate;
        holds &= bound("full against empty, throughput", slower, "at most", 1.2, slower <= 1.2);
        let later = full.latency.as_secs_f64() / empty.latency.as_secs_f64();
        holds &= bound("full against empty, latency", later, "at most", 1.2, later <= 1.2);
    }
    for store in stores {
        store.mail.close().await.unwrap();
    }
    holds
}

fn bound(what: &str, figure: f64, side: &str, limit: f64, holds: bool) -> bool {
    println!("{what}: {figure:.2}, {side} {limit}: {}", if holds { "holds" } else { "BROKEN" });
    holds
}

fn told(name: &str, figures: &Figures, floor: &Floor) -> bool {
    let (Figures { rate, latency }, Floor { bare, three_commits }) = (figures, floor);
    let ms = |time: &Duration| time.as_secs_f64() * 1e3;
    println!("{name}: {rate:.0} messages/s, bare SQLite {bare:.0} messages/s");
    println!(
        "{name}: send to waiting reader {:.2} ms, three commits {:.2} ms",
        ms(latency),
        ms(three_commits)
    );
    let share = rate / bare;
    let above = ms(latency) - ms(three_commits);
    bound(&format!("{name}, of bare SQLite"), share, "at least", 0.5, share >= 0.5)
        & bound(&format!("{name}, ms above three commits"), above, "at most", 2.0, above <= 2.0)
}

/// In turns, round by round: a disk that others use too is measured in the same moments.
async fn figures(stores: &[Store]) -> (Floor, Vec<Figures>) {
    let home = stores[0].home.path();
    let mut bares = Vec::new();
    let mut rates = vec![Vec::new(); stores.len()];
    for _ in 0..ROUNDS {
        bares.push(bare_sqlite(home));
        for (store, rates) in stores.iter().zip(&mut rates) {
            rates.push(exchange(&store.mail, MESSAGES).await);
        }
    }
    let yardstick = Yardstick::new(home);
    let mut commits = Vec::new();
    let mut times = vec![Vec::new(); stores.len()];
    for _ in 0..PINGS {
        commits.push(yardstick.three_commits());
        for (store, times) in stores.iter().zip(&mut times) {
            times.push(ping(&store.mail).await);
        }
    }
    let figures = rates.into_iter().zip(times);
    let figures = figures.map(|(rates, times)| Figures { rate: middle(rates), latency: middle(times) });
    (Floor { bare: middle(bares), three_commits: middle(commits) }, figures.collect())
}

fn middle<T: PartialOrd + Copy>(mut values: Vec<T>) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap());
    values[values.len() / 2]
}

/// Messages a second from the first send until the reader has the last.
async fn exchange(mail: &Mail, count: usize) -> f64 {
    let begun = Instant::now();
    let send = async {
        let mut left = count;
        while left > 0 {
            let now = left.min(IN_FLIGHT);
            let sends = (0..now)
                .map(|_| ask(mail, 1, m::MailSend::NAME, json!({"to": "bob", "text": "x".repeat(200)})));
            together(sends).await;
            left -= now;
        }
    };
    let read = async {
        let mut got = 0;
        while got < count {
            let inbox = ask(mail, 2, m::MailInbox::NAME, json!({"wait_s": 30.0, "limit": 500})).await;
            got += inbox["messages"].as_array().unwrap().len();
        }
    };
    tokio::join!(send, read);
    count as f64 / begun.elapsed().as_secs_f64()
}

async fn together(futures: impl Iterator<Item = impl Future<Output = Value>>) {
    let mut waiting: Vec<_> = futures.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        waiting.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if waiting.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// Until a message has come this far, asking again and again: the store is otherwise idle then.
async fn settled(mail: &Mail, id: &str, states: &[&str]) {
    loop {
        let status = ask(mail, 1, m::MailStatus::NAME, json!({"message_id": id})).await;
        if states.iter().any(|state| status["state"] == *state) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

async fn ping(mail: &Mail) -> Duration {
    let begun = std::cell::Cell::new(Instant::now());
    let read = async {
        ask(mail, 2, m::MailInbox::NAME, json!({"wait_s": 30.0})).await;
        begun.get().elapsed()
    };
    let send = async {
        // The reader asks the store twice before it waits; what is asked later is answered later.
        for _ in 0..4 {
            ask(mail, 1, m::AgentWhoami::NAME, json!({})).await;
        }
        begun.set(Instant::now());
        ask(mail, 1, m::MailSend::NAME, json!({"to": "bob", "text": "ping"})).await
    };
    let (time, sent) = tokio::join!(read, send);
    ask(mail, 2, m::MailInbox::NAME, json!({})).await;
    settled(mail, sent["message_id"].as_str().unwrap(), &["read"]).await;
    time
}

async fn fill(mail: &Mail, count: usize) {
    let mut left = count;
    while left > 0 {
        let now = left.min(IN_FLIGHT);
        let text = "y".repeat(200);
        together((0..now).map(|_| ask(mail, 1, m::MailSend::NAME, json!({"to": "attic", "text": text}))))
            .await;
        left -= now;
    }
    // Mail of a pair keeps its order: when the last is there, all are.
    let last = ask(mail, 1, m::MailSend::NAME, json!({"to": "attic", "text": "last"})).await;
    settled(mail, last["message_id"].as_str().unwrap(), &["routed"]).await;
}

fn open(path: &Path) -> Connection {
    let database = Connection::open(path).unwrap();
    database
        .execute_batch("PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;")
        .unwrap();
    database
}

struct Yardstick {
    database: Connection,
    _dir: tempfile::TempDir,
}

impl Yardstick {
    fn new(home: &Path) -> Yardstick {
        let dir = tempfile::tempdir_in(home).unwrap();
        let database = open(&dir.path().join("commit.db"));
        database.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, b BLOB)").unwrap();
        Yardstick { database, _dir: dir }
    }

    fn three_commits(&self) -> Duration {
        let begun = Instant::now();
        for _ in 0..3 {
            self.database.execute("INSERT INTO t (b) VALUES (zeroblob(400))", []).unwrap();
        }
        begun.elapsed()
    }
}

/// The rows of one message, in one commit.
fn bare_sqlite(home: &Path) -> f64 {
    let dir = tempfile::tempdir_in(home).unwrap();
    let mut database = open(&dir.path().join("bare.db"));
    database
        .execute_batch(
            "CREATE TABLE outbox (id INTEGER PRIMARY KEY, uid BLOB UNIQUE, message_id TEXT UNIQUE, body BLOB, state TEXT);
             CREATE TABLE history (outbox_id INTEGER, state TEXT, at INTEGER);
             CREATE INDEX history_of ON history(outbox_id);
             CREATE TABLE ratchets (id INTEGER PRIMARY KEY, pickle BLOB);
             INSERT INTO ratchets VALUES (1, zeroblob(2000)), (2, zeroblob(2000));
             CREATE TABLE packets (id INTEGER PRIMARY KEY, packet_id TEXT UNIQUE, bytes BLOB);
             CREATE TABLE relayed (id INTEGER PRIMARY KEY, packet_id TEXT UNIQUE, bytes BLOB);
             CREATE TABLE seen (packet_id TEXT PRIMARY KEY, uid BLOB) WITHOUT ROWID;
             CREATE TABLE mail (id INTEGER PRIMARY KEY, uid BLOB UNIQUE, local_id TEXT UNIQUE, text TEXT, state TEXT);
             CREATE TABLE deliveries (mail_id INTEGER PRIMARY KEY, uuid TEXT, state TEXT);",
        )
        .unwrap();
    let begun = Instant::now();
    for n in 0..MESSAGES as i64 {
        let transaction = database.transaction().unwrap();
        let run = |sql: &str| transaction.prepare_cached(sql).unwrap().execute(params![n]).map(drop).unwrap();
        run("INSERT INTO outbox VALUES (?1, randomblob(16), hex(randomblob(9)), zeroblob(900), 'queued')");
        for state in ["queued", "sealed", "relayed", "delivered", "routed", "offered", "read"] {
            run(&format!("INSERT INTO history VALUES (?1, '{state}', 1)"));
        }
        run("UPDATE ratchets SET pickle = zeroblob(2000) WHERE id = 1 + 0 * ?1");
        run("INSERT INTO packets VALUES (?1, hex(randomblob(32)), zeroblob(1100))");
        run("INSERT INTO relayed VALUES (?1, hex(randomblob(32)), zeroblob(1100))");
        run("UPDATE ratchets SET pickle = zeroblob(2000) WHERE id = 2 + 0 * ?1");
        run("INSERT INTO seen VALUES (hex(randomblob(32)), ?1)");
        run("INSERT INTO mail VALUES (?1, randomblob(16), hex(randomblob(9)), hex(zeroblob(100)), 'routed')");
        run("INSERT INTO deliveries VALUES (?1, 'u', 'read')");
        run("UPDATE outbox SET state = 'read' WHERE id = ?1");
        run("DELETE FROM packets WHERE id = ?1");
        run("DELETE FROM relayed WHERE id = ?1");
        transaction.commit().unwrap();
    }
    MESSAGES as f64 / begun.elapsed().as_secs_f64()
}
