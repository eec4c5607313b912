-- The data as it was loaded; never changed. A namespace sees it through what it has changed itself.
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS base (
  kind TEXT NOT NULL CHECK (kind IN ('products', 'users', 'orders')),
  id   TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS namespace (ns TEXT PRIMARY KEY, created_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;

-- What a namespace has changed: whole records, in the place of those of the same id in `base`.
CREATE TABLE IF NOT EXISTS overlay (
  ns   TEXT NOT NULL REFERENCES namespace (ns),
  kind TEXT NOT NULL CHECK (kind IN ('users', 'orders')),
  id   TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (ns, kind, id)
) STRICT, WITHOUT ROWID;

-- One row per idempotency key. `outcome` is null for a key that was sealed before anything came under it.
CREATE TABLE IF NOT EXISTS write (
  number    INTEGER PRIMARY KEY AUTOINCREMENT,
  ns        TEXT NOT NULL REFERENCES namespace (ns),
  key       TEXT NOT NULL,
  operation TEXT,
  digest    TEXT,
  outcome   TEXT CHECK (outcome IN ('applied', 'refused')),
  answer    TEXT,
  sealed    INTEGER NOT NULL DEFAULT 0 CHECK (sealed IN (0, 1)),
  at        INTEGER NOT NULL,
  UNIQUE (ns, key),
  CHECK (outcome IS NOT NULL OR sealed = 1)
) STRICT;

-- One row each time that the state was really changed, whoever asked for it and under whichever key.
CREATE TABLE IF NOT EXISTS application (
  number    INTEGER PRIMARY KEY AUTOINCREMENT,
  ns        TEXT NOT NULL REFERENCES namespace (ns),
  key       TEXT NOT NULL,
  operation TEXT NOT NULL,
  digest    TEXT NOT NULL,
  at        INTEGER NOT NULL
) STRICT;

CREATE INDEX IF NOT EXISTS application_ns ON application (ns, number);

-- What has been counted since the database was made; survives the process.
CREATE TABLE IF NOT EXISTS counter (name TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT, WITHOUT ROWID;
