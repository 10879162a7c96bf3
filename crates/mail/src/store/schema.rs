//! Tables, and the version that says which of them a file has.
//!
//! A released version is never edited: a change is a further step in `STEPS`.

use rusqlite::Connection;

use crate::error::MailError;

const STEPS: &[&str] = &[V1, V2, V3, V4, V5];

const V1: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('boot', 0), ('seals', 0);

CREATE TABLE agents (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  address TEXT NOT NULL UNIQUE,
  identity BLOB NOT NULL,
  epoch INTEGER NOT NULL,
  policy TEXT NOT NULL,
  primary_label TEXT,
  fallback_at INTEGER NOT NULL DEFAULT 0,
  bundle TEXT NOT NULL,
  auto_command TEXT,
  created_at INTEGER NOT NULL
);

-- Apart from the agents: large, and needed only when a session starts.
CREATE TABLE devices (agent_id INTEGER PRIMARY KEY REFERENCES agents(id), device BLOB NOT NULL);
-- Apart as well: written with each message.
CREATE TABLE unread (agent_id INTEGER PRIMARY KEY REFERENCES agents(id), count INTEGER NOT NULL);

CREATE TABLE sessions (
  uuid TEXT PRIMARY KEY,
  agent_id INTEGER NOT NULL REFERENCES agents(id),
  label TEXT NOT NULL,
  harness TEXT NOT NULL,
  harness_id TEXT NOT NULL,
  pid INTEGER,
  pid_start INTEGER,
  cwd TEXT,
  host TEXT NOT NULL,
  token_hash TEXT NOT NULL UNIQUE,
  started_at INTEGER NOT NULL,
  heartbeat INTEGER NOT NULL,
  last_seen INTEGER NOT NULL,
  holds_label INTEGER NOT NULL
);
-- Two sessions never hold one label, whatever the code above believes.
CREATE UNIQUE INDEX one_holder ON sessions(agent_id, label) WHERE holds_label = 1;

CREATE TABLE label_memory (
  agent_id INTEGER NOT NULL REFERENCES agents(id),
  harness_id TEXT NOT NULL,
  label TEXT NOT NULL,
  uuid TEXT NOT NULL,
  PRIMARY KEY (agent_id, harness_id)
) WITHOUT ROWID;

CREATE TABLE contacts (
  agent_id INTEGER NOT NULL REFERENCES agents(id),
  peer TEXT NOT NULL,
  petname TEXT,
  state TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (agent_id, peer)
) WITHOUT ROWID;

CREATE TABLE ratchets (
  agent_id INTEGER NOT NULL REFERENCES agents(id),
  peer TEXT NOT NULL,
  id TEXT NOT NULL,
  pickle BLOB,
  may_seal INTEGER NOT NULL,
  peer_epoch INTEGER NOT NULL,
  -- A count, not a time: two in one millisecond must still have an order.
  used INTEGER NOT NULL,
  PRIMARY KEY (agent_id, peer, id)
) WITHOUT ROWID;

CREATE TABLE rekeys (
  agent_id INTEGER NOT NULL, peer TEXT NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY (agent_id, peer)
) WITHOUT ROWID;

CREATE TABLE outbox (
  id INTEGER PRIMARY KEY,
  agent_id INTEGER NOT NULL REFERENCES agents(id),
  uid BLOB NOT NULL UNIQUE,
  message_id TEXT NOT NULL,
  peer TEXT NOT NULL,
  to_session TEXT,
  from_uuid TEXT NOT NULL,
  body BLOB NOT NULL,
  state TEXT NOT NULL,
  reason TEXT,
  pending INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  UNIQUE (agent_id, message_id)
);
CREATE INDEX outbox_pending ON outbox(agent_id, peer, id) WHERE pending = 1;
CREATE INDEX outbox_expiry ON outbox(expires_at) WHERE state IN ('queued','sealed','relayed');
CREATE TABLE history (
  outbox_id INTEGER NOT NULL, n INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT, at INTEGER NOT NULL,
  PRIMARY KEY (outbox_id, n)
) WITHOUT ROWID;

-- Words between daemons that are no mail: contact requests, new key exchanges, receipts.
CREATE TABLE controls (
  id INTEGER PRIMARY KEY,
  agent_id INTEGER NOT NULL,
  peer TEXT NOT NULL,
  kind TEXT NOT NULL,
  payload BLOB NOT NULL,
  fresh INTEGER NOT NULL
);
CREATE TABLE receipts (
  id INTEGER PRIMARY KEY,
  agent_id INTEGER NOT NULL,
  peer TEXT NOT NULL,
  uid BLOB NOT NULL,
  state TEXT NOT NULL,
  reason TEXT,
  at INTEGER NOT NULL
);

-- Numbered by the count of seals: never a number twice, as the publisher remembers the highest.
CREATE TABLE packets (
  id INTEGER PRIMARY KEY,
  agent_id INTEGER NOT NULL,
  peer TEXT NOT NULL,
  packet_id TEXT NOT NULL,
  bytes BLOB NOT NULL,
  outbox_id INTEGER,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_at INTEGER NOT NULL
);
CREATE INDEX packets_due ON packets(next_at, id) WHERE next_at > 0;
CREATE INDEX packets_of ON packets(outbox_id) WHERE outbox_id IS NOT NULL;

CREATE TABLE seen (
  agent_id INTEGER NOT NULL, packet_id TEXT NOT NULL, uid BLOB, at INTEGER NOT NULL,
  PRIMARY KEY (agent_id, packet_id)
) WITHOUT ROWID;

CREATE TABLE mail (
  id INTEGER PRIMARY KEY,
  agent_id INTEGER NOT NULL REFERENCES agents(id),
  sender TEXT NOT NULL,
  uid BLOB NOT NULL,
  wire_id TEXT NOT NULL,
  local_id TEXT NOT NULL,
  from_session TEXT,
  from_uuid TEXT,
  to_session TEXT,
  role TEXT,
  text TEXT NOT NULL,
  raw BLOB,
  in_reply_to TEXT,
  auto INTEGER NOT NULL,
  hops INTEGER NOT NULL,
  chain TEXT NOT NULL,
  sent_at INTEGER NOT NULL,
  arrived_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  route TEXT NOT NULL,
  bound_uuid TEXT,
  bounce_at INTEGER,
  answer TEXT,
  UNIQUE (agent_id, sender, uid),
  UNIQUE (agent_id, local_id)
);
CREATE INDEX mail_held ON mail(agent_id, id) WHERE route = 'held';
CREATE INDEX mail_bounce ON mail(bounce_at) WHERE route = 'held' AND bounce_at IS NOT NULL;
CREATE INDEX mail_expiry ON mail(expires_at) WHERE route = 'held';
CREATE INDEX mail_reply ON mail(agent_id, sender, in_reply_to) WHERE in_reply_to IS NOT NULL;
CREATE INDEX mail_unread ON mail(expires_at) WHERE route = 'routed';
CREATE INDEX mail_unanswered ON mail(answer) WHERE answer = 'due';

CREATE TABLE deliveries (
  mail_id INTEGER NOT NULL REFERENCES mail(id),
  uuid TEXT NOT NULL,
  state TEXT NOT NULL,
  via TEXT,
  PRIMARY KEY (mail_id, uuid)
) WITHOUT ROWID;
CREATE INDEX deliveries_open ON deliveries(uuid, mail_id) WHERE state != 'read';

CREATE TABLE conversations (
  agent_id INTEGER NOT NULL, peer TEXT NOT NULL, peer_label TEXT NOT NULL, uuid TEXT NOT NULL,
  PRIMARY KEY (agent_id, peer, peer_label)
) WITHOUT ROWID;

CREATE TABLE quarantine (
  agent_id INTEGER NOT NULL, peer TEXT NOT NULL, packet_id TEXT NOT NULL, bytes BLOB NOT NULL,
  reason TEXT NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY (agent_id, peer, packet_id)
);
CREATE TABLE dead_letters (
  id INTEGER PRIMARY KEY, agent_id INTEGER NOT NULL, message_id TEXT, peer TEXT NOT NULL,
  reason TEXT NOT NULL, at INTEGER NOT NULL
);
CREATE TABLE answers (mail_id INTEGER PRIMARY KEY, agent_id INTEGER NOT NULL, peer TEXT NOT NULL, at INTEGER NOT NULL);
CREATE INDEX answers_at ON answers(agent_id, at);
";

const V2: &str = "
-- For whom a harness session speaks when it does not say.
CREATE TABLE usual (harness_id TEXT PRIMARY KEY, agent_id INTEGER NOT NULL REFERENCES agents(id)) WITHOUT ROWID;
ALTER TABLE agents ADD COLUMN auto_network INTEGER NOT NULL DEFAULT 0;
-- The terminal session that a session of an agent runs in.
ALTER TABLE sessions ADD COLUMN terminal TEXT;
";

const V3: &str = "
-- Names of fields that a message came with and that were not safe to keep.
ALTER TABLE mail ADD COLUMN dropped TEXT NOT NULL DEFAULT '';
-- The sender's own name for a message, and what it said, so that it is sent once however often it is asked for.
ALTER TABLE outbox ADD COLUMN send_id TEXT;
ALTER TABLE outbox ADD COLUMN send_digest BLOB;
CREATE UNIQUE INDEX outbox_send_id ON outbox(agent_id, send_id) WHERE send_id IS NOT NULL;
";

const V4: &str = "
-- Somebody has told the session of this message.
ALTER TABLE deliveries ADD COLUMN announced INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sessions_harness ON sessions(harness_id, last_seen);
-- Which agent a harness session, a directory or everything else (an empty key) gets.
CREATE TABLE assignments (
  scope TEXT NOT NULL, key TEXT NOT NULL, agent_id INTEGER NOT NULL REFERENCES agents(id),
  PRIMARY KEY (scope, key)
) WITHOUT ROWID;
INSERT INTO assignments SELECT 'session', harness_id, agent_id FROM usual;
DROP TABLE usual;
";

const V5: &str = "
-- Runtimes of other daemons that an agent was granted, by the name that they have here.
CREATE TABLE granted_runtimes (
  name TEXT PRIMARY KEY,
  agent_id INTEGER NOT NULL REFERENCES agents(id),
  sender TEXT NOT NULL,
  grant_id TEXT NOT NULL,
  url TEXT NOT NULL,
  token TEXT NOT NULL,
  ca TEXT,
  expires_at INTEGER,
  UNIQUE (agent_id, sender, grant_id)
) WITHOUT ROWID;
";

/// Brings a file to the newest version; refuses one from the future.
pub(crate) fn prepare(database: &Connection, path: &str) -> Result<(), MailError> {
    let found: i64 = database.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let known = STEPS.len() as i64;
    if found > known {
        return Err(MailError::Schema { path: path.to_owned(), found, known });
    }
    for (done, step) in STEPS.iter().enumerate().skip(usize::try_from(found).unwrap_or(0)) {
        database.execute_batch(&format!("BEGIN; {step} PRAGMA user_version={}; COMMIT;", done + 1))?;
    }
    Ok(())
}
