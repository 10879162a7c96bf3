//! The thread that owns a database.
//!
//! Jobs that wait together share one commit, hence one fsync; each runs in its own
//! savepoint, so one that fails undoes itself alone. A job is answered only after
//! the commit that makes it durable.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::oneshot;

use crate::steps::Before;

/// Jobs that share a commit at most; bounds how long the first one waits.
const BATCH: usize = 64;

type Finish = Box<dyn FnOnce(Result<(), &str>)>;
type Job = Box<dyn FnOnce(&Connection) -> Finish + Send>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OwnerGone {
    Closed,
    Commit(String),
}

#[derive(Debug)]
pub(crate) struct Owner {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Owner {
    /// `commit` is reached before each commit; if it fails, the commit does.
    pub(crate) fn start(name: &str, database: Connection, commit: Before) -> std::io::Result<Owner> {
        let (jobs, queue) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || serve(database, queue, &commit))?;
        Ok(Owner { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Queues `work` behind everything that was asked for before, and does not wait for it.
    pub(crate) fn post<T, E>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        after: impl FnOnce(&mut T) + Send + 'static,
        failed: impl FnOnce(E) + Send + 'static,
    ) -> bool
    where
        T: 'static,
        E: From<rusqlite::Error> + From<OwnerGone> + 'static,
    {
        let job: Job = Box::new(move |database| {
            let result = within_savepoint(database, work);
            Box::new(move |committed| match (result, committed) {
                (Ok(mut value), Ok(())) => after(&mut value),
                (Ok(_), Err(why)) => failed(E::from(OwnerGone::Commit(why.to_owned()))),
                (Err(error), _) => failed(error),
            })
        });
        self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok())
    }

    /// Runs `work` in a transaction; `after` runs once it is durable, before the answer.
    pub(crate) async fn run<T, E>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        after: impl FnOnce(&mut T) + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<rusqlite::Error> + From<OwnerGone> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |database| {
            let result = within_savepoint(database, work);
            Box::new(move |committed| {
                let result = match (result, committed) {
                    (Ok(mut value), Ok(())) => {
                        after(&mut value);
                        Ok(value)
                    }
                    (Ok(_), Err(why)) => Err(E::from(OwnerGone::Commit(why.to_owned()))),
                    (Err(error), _) => Err(error),
                };
                // The caller may have gone; what it asked for is done all the same.
                drop(answer.send(result));
            })
        });
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if !sent {
            return Err(E::from(OwnerGone::Closed));
        }
        answered.await.unwrap_or_else(|_| Err(E::from(OwnerGone::Closed)))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // Dropped on its own thread when the last job held the last handle.
            if thread.thread().id() != std::thread::current().id() {
                drop(thread.join());
            }
        }
    }
}

fn within_savepoint<T, E: From<rusqlite::Error>>(
    database: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, E>,
) -> Result<T, E> {
    run(database, "SAVEPOINT job")?;
    match work(database) {
        Ok(value) => {
            run(database, "RELEASE job")?;
            Ok(value)
        }
        Err(error) => {
            database.execute_batch("ROLLBACK TO job; RELEASE job")?;
            Err(error)
        }
    }
}

/// Parsed once: these run for every message.
fn run(database: &Connection, sql: &str) -> rusqlite::Result<()> {
    database.prepare_cached(sql)?.execute([]).map(drop)
}

fn serve(database: Connection, queue: Receiver<Job>, commit: &Before) {
    while let Ok(first) = queue.recv() {
        let begun = run(&database, "BEGIN IMMEDIATE");
        let mut finishes = vec![first(&database)];
        while finishes.len() < BATCH {
            match queue.try_recv() {
                Ok(job) => finishes.push(job(&database)),
                Err(_) => break,
            }
        }
        let said = |error: rusqlite::Error| error.to_string();
        let outcome = begun
            .map_err(said)
            .and_then(|()| commit.reach().map_err(|error| error.to_string()))
            .and_then(|()| run(&database, "COMMIT").map_err(said));
        if outcome.is_err()
            && !database.is_autocommit()
            && let Err(error) = database.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "a transaction could not be undone");
        }
        for finish in finishes {
            finish(outcome.as_ref().map(|done| *done).map_err(String::as_str));
        }
    }
}

/// Opens a database file as private to its owner and durable at each commit.
pub(crate) fn open_database(path: &Path) -> rusqlite::Result<Connection> {
    private_file(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let database = Connection::open_with_flags(path, flags)?;
    database.set_prepared_statement_cache_capacity(256);
    // Else SQLite plans a statement anew whenever it is bound to other values.
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    database.execute_batch(
        "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;
         PRAGMA foreign_keys=ON; PRAGMA secure_delete=FAST; PRAGMA temp_store=MEMORY;
         PRAGMA cache_size=-16384;",
    )?;
    Ok(database)
}

/// SQLite gives its journal files the mode of the database, so the mode must be right first.
fn private_file(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let made = trl_sys::private::file_options().write(true).create_new(true).open(path);
    if made.is_err() {
        let narrowed = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600));
        if let Err(error) = narrowed {
            tracing::warn!(%error, "the mode of a mail file could not be narrowed");
        }
    }
}
