//! Mail through a broker, compared with a bare publisher and consumer on the same one, in the same run.
//!
//! `cargo bench -p trl-relay-nats --bench broker`. With `TRL_SIZING` set to a number of agents it
//! instead makes that many mailboxes and measures what `docs/multi-machine.md` calculates with.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for people who measure")]

mod together;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use trl_protocol::{Method as _, methods as m};

use async_nats::jetstream;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use together::together;
use trl_mail::clock::SystemClock;
use trl_mail::identity::{Address, Identity};
use trl_mail::presence::SystemProcesses;
use trl_mail::relay::{Mailbox, Outgoing, Relay as _};
use trl_mail::{Caller, Mail, MailConfig};
use trl_protocol::Request;
use trl_relay_nats::{BrokerConfig, Credentials, NatsRelay, Quota, Tls, setup};
use trl_testkit::Broker;

const MESSAGES: usize = 4000;
const IN_FLIGHT: usize = 64;
const ROUNDS: usize = 3;
const PINGS: usize = 200;
/// In the simulation: parcels for each mailbox, and how many of them are purged at once. At 100 messages
/// and as many receipts a minute, a reader that purges every five seconds has about so many.
const PARCELS_EACH: usize = 32;
const PARCELS_A_PURGE: usize = 16;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let agents = std::env::var("TRL_SIZING").ok().and_then(|text| text.parse().ok());
    match agents {
        Some(agents) => runtime.block_on(sizing(agents)),
        None => runtime.block_on(compare()),
    }
}

fn access(broker: &Broker) -> BrokerConfig {
    BrokerConfig { servers: broker.url(), credentials: Credentials::None, tls: Tls::default() }
}

/// An agent's daemon, with a home of its own.
#[derive(Debug)]
struct Office {
    mail: Mail,
    address: String,
    _home: tempfile::TempDir,
}

impl Office {
    async fn open(broker: &Broker, name: &str) -> Office {
        let home = tempfile::tempdir().unwrap();
        let mut config = MailConfig::new(home.path().to_owned());
        config.rate_per_minute = u32::MAX;
        config.local_rate_per_minute = u32::MAX;
        let relay = NatsRelay::open(access(broker), None).unwrap();
        let mail =
            Mail::open(config, Arc::new(SystemClock), Arc::new(SystemProcesses), Arc::new(relay)).unwrap();
        let office = Office { mail, address: String::new(), _home: home };
        let made = office.ask(m::AgentCreate::NAME, json!({ "name": name })).await;
        office.ask(m::AgentUse::NAME, json!({ "agent": name })).await;
        Office { address: made["address"].as_str().unwrap().to_owned(), ..office }
    }

    async fn ask(&self, method: &str, params: Value) -> Value {
        let Request::Mail(request) = Request::parse(method, params).unwrap() else {
            unreachable!("{method} is not for the mail")
        };
        serde_json::to_value(self.mail.handle(request, Caller::on(1)).await.unwrap()).unwrap()
    }
}

async fn introduce(alice: &Office, bob: &Office) {
    alice.ask(m::ContactRequest::NAME, json!({ "who": bob.address })).await;
    let is = async |office: &Office, state: &str| {
        while office.ask(m::ContactList::NAME, json!({})).await["contacts"][0]["state"] != state {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    is(bob, "asking").await;
    bob.ask(m::ContactAccept::NAME, json!({ "who": alice.address })).await;
    is(alice, "accepted").await;
}

async fn compare() {
    let broker = Broker::open_to_all();
    setup::prepare(&access(&broker), &[], Quota::default(), 1).await.unwrap();
    let (alice, bob) = (Office::open(&broker, "alice").await, Office::open(&broker, "bob").await);
    introduce(&alice, &bob).await;
    let (bare, relay) = (Bare::new(&broker).await, RelayAlone::new(&broker).await);
    let (mut ours, mut theirs, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        theirs.push(bare.throughput().await);
        alone.push(relay.throughput().await);
        ours.push(throughput(&alice, &bob).await);
    }
    tell("throughput of the relay alone, packets/s", middle(alone), middle(theirs.clone()));
    tell("throughput from send to inbox, messages/s", middle(ours), middle(theirs));
    let (mut ours, mut theirs, mut alone, mut commits) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let disk = tempfile::tempdir().unwrap();
    for n in 0..PINGS {
        theirs.push(bare.ping().await);
        alone.push(relay.ping(n).await);
        ours.push(ping(&alice, &bob).await);
        commits.push(two_commits(disk.path()));
    }
    let theirs = middle(theirs);
    tell("latency of the relay alone, ms", middle(alone) * 1e3, theirs * 1e3);
    tell("latency from send to inbox, ms", middle(ours) * 1e3, theirs * 1e3);
    println!("of which two synced writes, as it is durable at both ends: {:.2} ms", middle(commits) * 1e3);
}

fn tell(what: &str, ours: f64, bare: f64) {
    println!("{what}: {ours:.2}, bare {bare:.2}: {:.2} of it", ours / bare);
}

/// What the disk alone costs a message that is stored at its sender's and at its reader's.
fn two_commits(dir: &std::path::Path) -> f64 {
    use std::io::Write as _;
    let begun = Instant::now();
    for name in ["sender", "reader"] {
        let mut file = std::fs::File::options().create(true).append(true).open(dir.join(name)).unwrap();
        file.write_all(&[0; 4096]).unwrap();
        file.sync_data().unwrap();
    }
    begun.elapsed().as_secs_f64()
}

/// From the relay's `publish` to its mailbox, as the engine uses them.
struct RelayAlone {
    publisher: NatsRelay,
    reader: tokio::sync::Mutex<Box<dyn Mailbox>>,
    from: Address,
    to: Address,
    count: AtomicUsize,
}

impl RelayAlone {
    async fn new(broker: &Broker) -> RelayAlone {
        let address = || Identity::generate().address().clone();
        let (from, to) = (address(), address());
        setup::prepare(&access(broker), std::slice::from_ref(&to), Quota::default(), 1).await.unwrap();
        let publisher = NatsRelay::open(access(broker), None).unwrap();
        let reader = NatsRelay::open(access(broker), None).unwrap().mailbox(&to);
        RelayAlone {
            publisher,
            reader: tokio::sync::Mutex::new(reader),
            from,
            to,
            count: AtomicUsize::new(0),
        }
    }

    async fn send(&self, numbers: std::ops::Range<usize>, size: usize) {
        let packet = |n: usize| Outgoing {
            from: self.from.clone(),
            to: self.to.clone(),
            // The broker knows what it had before.
            id: self.count.fetch_add(1, Ordering::Relaxed).to_string(),
            bytes: vec![n as u8; size],
        };
        self.publisher.publish(numbers.map(packet).collect()).await.unwrap();
    }

    async fn take(&self, count: usize) {
        let mut reader = self.reader.lock().await;
        let mut got = 0;
        while got < count {
            let packets = reader.next(128).await.unwrap();
            got += packets.len();
            reader.ack(packets.iter().map(|packet| packet.token).collect()).await.unwrap();
        }
    }

    async fn throughput(&self) -> f64 {
        let begun = Instant::now();
        let send = async {
            for start in (0..MESSAGES).step_by(IN_FLIGHT) {
                self.send(start..(start + IN_FLIGHT).min(MESSAGES), 900).await;
            }
        };
        tokio::join!(send, self.take(MESSAGES));
        MESSAGES as f64 / begun.elapsed().as_secs_f64()
    }

    async fn ping(&self, n: usize) -> f64 {
        let begun = std::cell::Cell::new(Instant::now());
        let read = async {
            self.take(1).await;
            begun.get().elapsed()
        };
        let send = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            begun.set(Instant::now());
            self.send(n..n + 1, 901).await;
        };
        tokio::join!(read, send).0.as_secs_f64()
    }
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn throughput(alice: &Office, bob: &Office) -> f64 {
    let begun = Instant::now();
    let send = async {
        let mut left = MESSAGES;
        while left > 0 {
            let now = left.min(IN_FLIGHT);
            together(
                (0..now).map(|_| alice.ask(m::MailSend::NAME, json!({"to": "bob", "text": "x".repeat(200)}))),
            )
            .await;
            left -= now;
        }
    };
    let read = async {
        let mut got = 0;
        while got < MESSAGES {
            let inbox = bob.ask(m::MailInbox::NAME, json!({"wait_s": 30.0, "limit": 500})).await;
            got += inbox["messages"].as_array().unwrap().len();
        }
    };
    tokio::join!(send, read);
    MESSAGES as f64 / begun.elapsed().as_secs_f64()
}

async fn ping(alice: &Office, bob: &Office) -> f64 {
    let begun = std::cell::Cell::new(Instant::now());
    let read = async {
        bob.ask(m::MailInbox::NAME, json!({"wait_s": 30.0})).await;
        begun.get().elapsed()
    };
    let send = async {
        // The reader must be waiting, with its acknowledgement behind it.
        tokio::time::sleep(Duration::from_millis(40)).await;
        begun.set(Instant::now());
        alice.ask(m::MailSend::NAME, json!({"to": "bob", "text": "ping"})).await;
    };
    tokio::join!(read, send).0.as_secs_f64()
}

/// What the same library does without us: publish with confirmation, read with a durable consumer.
struct Bare {
    publisher: jetstream::Context,
    consumer: jetstream::consumer::Consumer<jetstream::consumer::pull::Config>,
}

impl Bare {
    async fn new(broker: &Broker) -> Bare {
        let publisher = jetstream::new(async_nats::connect(broker.url()).await.unwrap());
        let reader = jetstream::new(async_nats::connect(broker.url()).await.unwrap());
        let config = jetstream::stream::Config {
            name: "BARE".to_owned(),
            subjects: vec!["bare".to_owned()],
            ..Default::default()
        };
        let stream = reader.create_stream(config).await.unwrap();
        let config = jetstream::consumer::pull::Config {
            durable_name: Some("reader".to_owned()),
            ..Default::default()
        };
        Bare { publisher, consumer: stream.create_consumer(config).await.unwrap() }
    }

    async fn send(&self, size: usize) -> Value {
        self.publisher.publish("bare", vec![b'x'; size].into()).await.unwrap().await.unwrap();
        Value::Null
    }

    async fn throughput(&self) -> f64 {
        let begun = Instant::now();
        let send = async {
            let mut left = MESSAGES;
            while left > 0 {
                let now = left.min(IN_FLIGHT);
                // As long as one of ours is, encrypted.
                together((0..now).map(|_| self.send(900))).await;
                left -= now;
            }
        };
        let read = async {
            let mut messages = self.consumer.messages().await.unwrap().take(MESSAGES);
            while let Some(message) = messages.next().await {
                message.unwrap().ack().await.unwrap();
            }
        };
        tokio::join!(send, read);
        MESSAGES as f64 / begun.elapsed().as_secs_f64()
    }

    async fn ping(&self) -> f64 {
        let mut messages = self.consumer.messages().await.unwrap();
        let begun = std::cell::Cell::new(Instant::now());
        let read = async {
            let message = messages.next().await.unwrap().unwrap();
            let took = begun.get().elapsed();
            message.double_ack().await.unwrap();
            took
        };
        let send = async {
            tokio::time::sleep(Duration::from_millis(40)).await;
            begun.set(Instant::now());
            self.send(900).await;
        };
        tokio::join!(read, send).0.as_secs_f64()
    }
}

/// Mailboxes for this many agents, and parcels between them as fast as they go.
async fn sizing(agents: usize) {
    let broker = Broker::open_to_all();
    let before = broker.memory_kib();
    let addresses: Vec<Address> = (0..agents).map(|_| Identity::generate().address().clone()).collect();
    let begun = Instant::now();
    setup::prepare(&access(&broker), &addresses, Quota::default(), 1).await.unwrap();
    let grown = broker.memory_kib() - before;
    println!(
        "{agents} mailboxes made in {:.1} s; the broker grew by {} MiB, {:.1} KiB each",
        begun.elapsed().as_secs_f64(),
        grown / 1024,
        grown as f64 / agents as f64
    );
    let client = async_nats::connect(broker.url()).await.unwrap();
    let context = jetstream::new(client.clone());
    let (parcels, size) = (agents * PARCELS_EACH, 1200);
    // Every bell is waited for, so none may be dropped.
    let options = async_nats::ConnectOptions::new().subscription_capacity(parcels.max(65_536));
    let reader = options.connect(broker.url()).await.unwrap();
    let mut bells = reader.subscribe("trl.bell.*.*").await.unwrap();
    reader.flush().await.unwrap();
    let (context, addresses) = (&context, &addresses);
    let busy = broker.cpu_seconds();
    let begun = Instant::now();
    let write = async {
        for first in (0..parcels).step_by(256) {
            let one = async |n: usize| {
                let (to, from) = (&addresses[n % agents], &addresses[(n * 7 + 1) % agents]);
                let subject = format!("trl.mbox.{to}.{from}");
                let stored = context.publish(subject, vec![0; size].into()).await.unwrap().await.unwrap();
                if n / agents % PARCELS_A_PURGE == PARCELS_A_PURGE - 1 {
                    let purge = json!({ "seq": stored.sequence + 1 }).to_string();
                    client
                        .publish(format!("$JS.API.STREAM.PURGE.TRL_MBOX_{to}"), purge.into())
                        .await
                        .unwrap();
                }
                Value::Null
            };
            together((first..(first + 256).min(parcels)).map(one)).await;
        }
    };
    let read = async {
        for _ in 0..parcels {
            bells.next().await.unwrap();
        }
    };
    tokio::join!(write, read);
    let took = begun.elapsed().as_secs_f64();
    let each = (broker.cpu_seconds() - busy) / parcels as f64;
    let wanted = agents as f64 * 200.0 / 60.0;
    println!(
        "{parcels} parcels of {size} bytes stored, delivered and purged in {took:.1} s: {:.0} a second, {:.0} µs of the \
         broker's processors each; it uses {} MiB",
        parcels as f64 / took,
        each * 1e6,
        broker.memory_kib() / 1024
    );
    println!(
        "{agents} agents with 100 messages a minute, each with a receipt: {wanted:.0} parcels a second, {:.1} processors",
        wanted * each
    );
}
