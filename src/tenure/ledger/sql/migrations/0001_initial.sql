-- Times are milliseconds since the Unix epoch. States, events and receipts are JSON; chain digests are 32 bytes.
-- Positions are given by the writer inside its transaction: one writer at a time, so they become visible in order.

CREATE TABLE events (
  position INTEGER PRIMARY KEY,
  root_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  digest BLOB NOT NULL,
  event BLOB NOT NULL
) STRICT;
CREATE INDEX events_of_task ON events (root_id, task_id);  -- a rowid ends every index: this one is in feed order

-- position: that of the task's first event. due_at: its next deadline, NULL once it has ended.
CREATE TABLE tasks (
  position INTEGER PRIMARY KEY,
  root_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  revision INTEGER NOT NULL,
  phase TEXT NOT NULL,
  due_at INTEGER,
  lease_until INTEGER NOT NULL,
  head BLOB NOT NULL,
  state BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX tasks_by_id ON tasks (root_id, task_id);
CREATE INDEX tasks_by_phase ON tasks (phase);
CREATE INDEX tasks_due ON tasks (due_at, root_id, task_id) WHERE due_at IS NOT NULL;

CREATE TABLE trees (
  root_id TEXT PRIMARY KEY,
  state BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- position: that of the event of its intent. settled: 0 while open.
CREATE TABLE effects (
  position INTEGER PRIMARY KEY,
  root_id TEXT NOT NULL,
  effect_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  intent TEXT NOT NULL,
  phase TEXT NOT NULL,
  settled INTEGER NOT NULL,
  version INTEGER NOT NULL,
  state BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX effects_by_id ON effects (root_id, effect_id);
CREATE INDEX effects_by_intent ON effects (root_id, intent, position);
CREATE INDEX effects_of_task ON effects (root_id, task_id);
CREATE INDEX effects_open ON effects (root_id, task_id) WHERE settled = 0;
CREATE INDEX effects_by_phase ON effects (phase);

-- content is NULL once it was erased; the row stays, so that erased can be told from missing.
CREATE TABLE bodies (
  root_id TEXT NOT NULL,
  digest TEXT NOT NULL,
  nonce TEXT,
  content BLOB,
  erased_at INTEGER,
  PRIMARY KEY (root_id, digest)
) STRICT;

CREATE TABLE inputs (
  root_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  n INTEGER NOT NULL,
  at INTEGER NOT NULL,
  sender TEXT NOT NULL,
  question_id TEXT NOT NULL,
  digest TEXT NOT NULL,
  PRIMARY KEY (root_id, task_id, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE commands (
  root_id TEXT NOT NULL,
  command_id TEXT NOT NULL,
  digest BLOB NOT NULL,
  receipt BLOB NOT NULL,
  PRIMARY KEY (root_id, command_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE conversations (
  conversation TEXT PRIMARY KEY,
  task_id TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One row per agent that may pick the offer up; position: that of the event that issued it.
CREATE TABLE offers (
  root_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  agent TEXT NOT NULL,
  position INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  kind TEXT NOT NULL,
  payload TEXT NOT NULL,
  issued_at INTEGER NOT NULL,
  deadline INTEGER NOT NULL,
  PRIMARY KEY (root_id, task_id, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX offers_to_agent ON offers (agent, position);

-- Which instances a task mentions. source: empty for the task itself, else the effect whose sender it is.
CREATE TABLE holdings (
  instance_id TEXT NOT NULL,
  root_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  source TEXT NOT NULL,
  PRIMARY KEY (instance_id, root_id, task_id, source)
) STRICT, WITHOUT ROWID;

CREATE TABLE instances (
  n INTEGER PRIMARY KEY,
  instance_id TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  host TEXT NOT NULL,
  boot TEXT NOT NULL,
  pid INTEGER NOT NULL,
  started INTEGER NOT NULL,
  lease_ms INTEGER NOT NULL,
  seen_at INTEGER NOT NULL,
  ended_at INTEGER NOT NULL
) STRICT;
CREATE INDEX instances_running ON instances (name) WHERE ended_at = 0;

CREATE TABLE audit (
  position INTEGER PRIMARY KEY,
  root_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  note BLOB NOT NULL
) STRICT;
CREATE INDEX audit_of_task ON audit (root_id, task_id);
