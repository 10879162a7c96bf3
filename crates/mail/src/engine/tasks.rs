//! The open mail of one owner: its lock, its thread, its loops, and the way to end them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use trl_protocol::Fault;
use trl_protocol::agent::CallerParams;
use trl_protocol::mail::MailEvent;

use crate::clock::Clock;
use crate::config::MailConfig;
use crate::engine::autoresponder::run_command;
use crate::engine::dispatch::{Caller, MailReply, MailRequest};
use crate::engine::identity::agents::Agent;
use crate::engine::identity::idle_agents::IdleAgents;
use crate::engine::identity::sessions::Session;
use crate::engine::repeated_error::RepeatedError;
use crate::engine::runtimes::{GrantedRuntimes, Parties};
use crate::engine::sending::pump;
use crate::engine::{Engine, Env, Tx, Wake, Wakeups};
use crate::envelope::RuntimeWord;
use crate::error::MailError;
use crate::lock::OwnerLock;
use crate::presence::{Connections, Ended, Processes};
use crate::relay::{Relay, RelayError};
use crate::steps::Step;
use crate::store::{Owner, Witness, WitnessFile, open_database, prepare};

const RETRY_AFTER: Duration = Duration::from_millis(500);
const ANNOUNCE_AFTER: Duration = Duration::from_secs(2);
const FETCH: usize = 128;

/// Mail, open and at work. Dropping it stops the loops; [`Mail::close`] also says that all is in order.
#[derive(Debug)]
pub struct Mail {
    engine: Arc<Engine>,
    tasks: Arc<Mutex<Tasks>>,
    _lock: OwnerLock,
}

#[derive(Debug, Default)]
struct Tasks {
    handles: Vec<JoinHandle<()>>,
    reading: HashSet<i64>,
}

impl Mail {
    /// Takes the lock, opens the store and starts the loops. Must be called within a runtime.
    pub fn open(
        config: MailConfig,
        clock: Arc<dyn Clock>,
        processes: Arc<dyn Processes>,
        relay: Arc<dyn Relay>,
    ) -> Result<Mail, MailError> {
        Mail::open_with(config, clock, processes, || Ok(relay))
    }

    /// The same with a relay whose own state lies under the same lock: it is opened only by the owner.
    pub fn open_with(
        config: MailConfig,
        clock: Arc<dyn Clock>,
        processes: Arc<dyn Processes>,
        relay: impl FnOnce() -> Result<Arc<dyn Relay>, MailError>,
    ) -> Result<Mail, MailError> {
        let runtime = Handle::try_current().map_err(|_| MailError::NoRuntime)?;
        let lock = OwnerLock::take(&config.dir)?;
        let relay = relay()?;
        let path = config.dir.join("mail.db");
        let database = open_database(&path)?;
        prepare(&database, &path.display().to_string())?;
        let witness = WitnessFile::in_dir(&config.dir);
        let counter = |key: &str| {
            database.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get::<_, u64>(0))
        };
        let (boot, seals) = (counter("boot")?, counter("seals")?);
        let restored = match witness.read() {
            Some(seen) => seen.is_ahead_of(boot, seals),
            None => boot > 0,
        };
        let env = Arc::new(Env {
            boot: boot + 1,
            opened_at: clock.now_ms(),
            witnessed: AtomicU64::new(seals),
            relay_name: relay.name(),
            relay_max: relay.max_packet_bytes(),
            witness,
            config,
            clock,
            processes,
            connections: Connections::default(),
            wakeups: Wakeups::default(),
            publish_queue: crate::engine::sending::publish_queue::PublishQueue::default(),
            unwritten_leases: crate::engine::inbox::reading::UnwrittenLeases::default(),
            waiters: crate::engine::inbox::notices::Waiters::default(),
            rates: crate::engine::sending::rates::Rates::default(),
            forgot_at: AtomicI64::new(0),
            has_terminals: AtomicBool::new(has_terminals(&database)?),
            deadline: AtomicI64::new(i64::MAX),
        });
        let agents = begin(&database, &env, restored)?;
        env.witness.write(Witness { boot: boot + 1, seals, closed: false })?;
        let owner = Owner::start("trl-mail", database, env.config.steps.before(Step::StoreCommit))
            .map_err(MailError::io("cannot start the mail's thread"))?;
        let engine = Arc::new(Engine::new(env, relay, owner));
        let mail = Mail { engine, tasks: Arc::default(), _lock: lock };
        mail.start(&runtime, agents);
        Ok(mail)
    }

    fn start(&self, runtime: &Handle, agents: Vec<Agent>) {
        let engine = || Arc::clone(&self.engine);
        {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.handles.push(runtime.spawn(pump::run(engine())));
            tasks.handles.push(runtime.spawn(run_command::run(engine())));
            tasks.handles.push(runtime.spawn(keep_time(engine())));
            tasks.handles.push(runtime.spawn(keep_keys(engine())));
            tasks.handles.push(runtime.spawn(keep_leases(engine())));
        }
        for agent in agents {
            read_mailbox(&self.engine, &self.tasks, runtime, agent);
        }
    }

    /// Answers one request; waiting requests wait inside. Dropping the future abandons the wait.
    pub async fn handle(&self, request: MailRequest, caller: Caller) -> Result<MailReply, Fault> {
        let MailRequest::AgentCreate(_) = request else {
            return self.engine.handle(request, caller).await;
        };
        // On its own, so that an agent whose maker has gone still gets its mailbox read.
        let (engine, tasks) = (Arc::clone(&self.engine), Arc::clone(&self.tasks));
        let made = tokio::spawn(async move {
            let reply = engine.handle(request, caller).await;
            for agent in engine.tx(|tx| tx.all_agents()).await? {
                read_mailbox(&engine, &tasks, &Handle::current(), agent);
            }
            reply
        });
        made.await.unwrap_or_else(|_| Err(MailError::Closed.into()))
    }

    /// `mail.subscribe`: counts and ids of what arrives, for as long as the subscription is kept.
    pub async fn subscribe(&self, params: CallerParams, caller: Caller) -> Result<Subscription, Fault> {
        let session = self.engine.tx(move |tx| tx.caller(caller, params.as_token.as_deref())).await?;
        Ok(Subscription { engine: Arc::clone(&self.engine), session, told: HashSet::new() })
    }

    /// Those who have mail at a terminal of ours and do not ask for it.
    pub fn idle_agents(&self) -> IdleAgents {
        IdleAgents::new(Arc::clone(&self.engine))
    }

    /// The runtimes of other daemons that agents of this one were granted.
    pub fn granted_runtimes(&self) -> GrantedRuntimes {
        GrantedRuntimes::new(Arc::clone(&self.engine))
    }

    /// Who grants and who is granted access, if the two are contacts. `from`: an agent of this daemon; without it the
    /// first that has `to` as a contact.
    pub async fn parties_of_grant(&self, from: Option<String>, to: String) -> Result<Parties, Fault> {
        Ok(self.engine.tx(move |tx| tx.parties_of_grant(from.as_deref(), &to)).await?)
    }

    /// Sends a word about a runtime from one of this daemon's agents, with a text for whoever reads the mail.
    /// Returns the id of the message.
    pub async fn tell_of_runtime(
        &self,
        from: &str,
        to: &str,
        text: String,
        word: RuntimeWord,
        expires_s: Option<f64>,
    ) -> Result<String, Fault> {
        let (from, to) = (from.to_owned(), to.to_owned());
        Ok(self.engine.tx(move |tx| tx.tell_of_runtime(&from, to, text, word, expires_s)).await?)
    }

    /// A connection has ended: the session it held is no longer held by it.
    pub async fn connection_closed(&self, connection: u64) -> Result<(), Fault> {
        let Ended { session, readers } = self.engine.env.connections.end(connection);
        if session.is_none() && readers.is_empty() {
            return Ok(());
        }
        let lost = self.engine.tx(move |tx| {
            for uuid in &readers {
                tx.withdraw_offers_on(uuid, connection)?;
            }
            session.map_or(Ok(()), |uuid| tx.connection_lost(&uuid))
        });
        Ok(lost.await?)
    }

    /// Whether any agent has a live session; a daemon without may end.
    pub async fn is_anyone_live(&self) -> Result<bool, Fault> {
        let anyone = self.engine.tx(|tx| {
            for agent in tx.all_agents()? {
                if !tx.live_sessions(agent.id)?.is_empty() {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        Ok(anyone.await?)
    }

    /// Does what is due by the clock now. The loop does this by itself; tests move the clock and call it.
    pub async fn tick(&self) -> Result<(), Fault> {
        self.engine.tx(|tx| tx.tick()).await?;
        Ok(())
    }

    /// Stops the loops and notes that nothing was left half done.
    pub async fn close(self) -> Result<(), MailError> {
        for handle in self.stop() {
            // Aborted or ended: either way it no longer holds the store.
            drop(handle.await);
        }
        let seals = self
            .engine
            .tx(|tx| {
                Ok(tx.db.query_row("SELECT value FROM meta WHERE key = 'seals'", [], |row| row.get(0))?)
            })
            .await?;
        let env = &self.engine.env;
        env.witness.write(Witness { boot: env.boot, seals, closed: true })
    }

    fn stop(&self) -> Vec<JoinHandle<()>> {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let handles = std::mem::take(&mut tasks.handles);
        for handle in &handles {
            handle.abort();
        }
        handles
    }
}

impl Drop for Mail {
    fn drop(&mut self) {
        drop(self.stop());
    }
}

fn read_mailbox(engine: &Arc<Engine>, tasks: &Mutex<Tasks>, runtime: &Handle, agent: Agent) {
    let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
    if tasks.reading.insert(agent.id) {
        tasks.handles.push(
            runtime.spawn(crate::engine::identity::presence::attend(Arc::clone(engine), agent.clone())),
        );
        tasks.handles.push(runtime.spawn(receive(Arc::clone(engine), agent)));
    }
}

fn has_terminals(database: &rusqlite::Connection) -> Result<bool, MailError> {
    Ok(database.prepare("SELECT 1 FROM sessions WHERE terminal IS NOT NULL LIMIT 1")?.exists([])?)
}

/// The first transaction of a start: counts it, and retires the ratchets of a restored store.
fn begin(database: &rusqlite::Connection, env: &Env, restored: bool) -> Result<Vec<Agent>, MailError> {
    database.execute_batch("BEGIN IMMEDIATE")?;
    let mut tx = Tx::new(database, env);
    tx.db.execute("UPDATE meta SET value = value + 1 WHERE key = 'boot'", [])?;
    // No connection of an earlier daemon is left.
    tx.db.execute(
        "UPDATE deliveries SET state = 'waiting', via = NULL
                   WHERE state = 'offered' AND via != 'token'",
        [],
    )?;
    // A session without a process lived by its connection; one that lives on will beat again.
    tx.db.execute("UPDATE sessions SET heartbeat = 0 WHERE pid IS NULL", [])?;
    if restored {
        tracing::warn!("the mail store is older than its witness: new keys are used from here on");
        tx.retire_ratchets()?;
    }
    tx.bury_interrupted()?;
    let agents = tx.all_agents()?;
    database.execute_batch("COMMIT")?;
    Ok(agents)
}

/// From the relay into the store, then the acknowledgement; what fails comes again.
async fn receive(engine: Arc<Engine>, agent: Agent) {
    let mut mailbox = engine.relay.mailbox(&agent.address);
    let mut last_error = RepeatedError::default();
    loop {
        let result = receive_batch(&engine, agent.id, mailbox.as_mut()).await;
        match result {
            Ok(()) => last_error.clear(),
            Err(MailError::Closed | MailError::Relay(RelayError::Closed)) => return,
            Err(error) => {
                if last_error.is_new(&error) {
                    tracing::warn!(%error, agent = agent.id, "receiving mail failed; it is tried again");
                }
                sleep(RETRY_AFTER).await;
                mailbox = engine.relay.mailbox(&agent.address);
            }
        }
    }
}

async fn receive_batch(
    engine: &Engine,
    agent_id: i64,
    mailbox: &mut dyn crate::relay::Mailbox,
) -> Result<(), MailError> {
    let steps = &engine.env.config.steps;
    let packets = mailbox.next(FETCH).await?;
    steps.reach(Step::ReceiveFetched)?;
    let tokens = packets.iter().map(|packet| packet.token).collect();
    engine.tx(move |tx| tx.receive(agent_id, packets)).await?;
    steps.reach(Step::ReceiveCommitted)?;
    mailbox.ack(tokens).await?;
    steps.reach(Step::ReceiveAcked)
}

/// Sleeps until the next deadline and does what is due then.
async fn keep_time(engine: Arc<Engine>) {
    let wakeup = engine.env.wakeups.listen(Wake::Deadline);
    loop {
        // Set before the look, so that a deadline which appears during it is not lost.
        engine.env.deadline.store(i64::MAX, Ordering::SeqCst);
        let next = match engine.tx(|tx| tx.tick()).await {
            Ok(next) => next,
            Err(MailError::Closed) => return,
            Err(error) => {
                tracing::warn!(%error, "what was due could not be done");
                engine.env.clock.now_ms() + 1000
            }
        };
        engine.env.deadline.fetch_min(next, Ordering::SeqCst);
        loop {
            let left = engine.env.deadline.load(Ordering::SeqCst) - engine.env.clock.now_ms();
            let Ok(left @ 1..) = u64::try_from(left) else { break };
            tokio::select! {
                () = sleep(Duration::from_millis(left)) => {}
                () = wakeup.notify.notified() => {}
            }
        }
    }
}

async fn keep_keys(engine: Arc<Engine>) {
    let wakeup = engine.env.wakeups.listen(Wake::Keys);
    let mut always = true;
    let mut last_error = RepeatedError::default();
    loop {
        let agents = match engine.tx(|tx| tx.all_agents()).await {
            Ok(agents) => agents,
            Err(MailError::Closed) => return,
            Err(error) => {
                tracing::warn!(%error, "agents could not be read");
                Vec::new()
            }
        };
        let mut failed = false;
        for agent in agents {
            if let Err(error) = engine.supply_keys(&agent, always).await {
                if last_error.is_new(&error) {
                    tracing::warn!(%error, agent = agent.id, "keys could not be announced; tried again later");
                }
                failed = true;
            }
        }
        always = failed;
        if failed {
            // A relay that is away comes back without a word.
            drop(tokio::time::timeout(ANNOUNCE_AFTER, wakeup.notify.notified()).await);
        } else {
            wakeup.notify.notified().await;
        }
    }
}

/// What was handed out and could not be written down is written as soon as that works again.
async fn keep_leases(engine: Arc<Engine>) {
    let wakeup = engine.env.wakeups.listen(Wake::Lease);
    loop {
        let mut failed = false;
        for lease in engine.env.unwritten_leases.unwritten() {
            match engine.tx(move |tx| tx.write_lease(&lease)).await {
                Ok(()) => {}
                Err(MailError::Closed) => return,
                Err(_) => failed = true,
            }
        }
        match failed {
            true => sleep(RETRY_AFTER).await,
            false => wakeup.notify.notified().await,
        }
    }
}

/// Events of one session's inbox.
#[derive(Debug)]
pub struct Subscription {
    engine: Arc<Engine>,
    session: Session,
    told: HashSet<i64>,
}

impl Subscription {
    /// Waits for mail that was not told of before. `Err` ends the subscription.
    pub async fn next(&mut self) -> Result<MailEvent, Fault> {
        let wakeup = self.engine.env.wakeups.listen(Wake::Inbox(self.session.uuid.clone()));
        loop {
            let mut rung = std::pin::pin!(wakeup.notify.notified());
            rung.as_mut().enable();
            let uuid = self.session.uuid.clone();
            let (count, open) = self.engine.tx(move |tx| tx.open_mail(&uuid)).await?;
            self.told.retain(|told| open.iter().any(|(id, _)| id == told));
            let fresh: Vec<String> =
                open.into_iter().filter(|(id, _)| self.told.insert(*id)).map(|(_, name)| name).collect();
            if !fresh.is_empty() {
                return Ok(MailEvent { count, ids: fresh });
            }
            rung.await;
        }
    }
}

impl Tx<'_> {
    /// How many messages wait, and the oldest of them by name.
    fn open_mail(&self, uuid: &str) -> Result<(u64, Vec<(i64, String)>), MailError> {
        let mut query = self.db.prepare_cached(
            "SELECT m.id, m.local_id FROM deliveries d JOIN mail m ON m.id = d.mail_id
             WHERE d.uuid = ?1 AND d.state != 'read' AND m.expires_at > ?2 ORDER BY d.mail_id LIMIT 1000",
        )?;
        let rows =
            query.query_map(rusqlite::params![uuid, self.now], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let open: Vec<(i64, String)> = rows.collect::<Result<_, _>>()?;
        Ok((self.waiting_for(uuid)?, open))
    }
}
