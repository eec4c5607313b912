-- Versions of routing graphs, by the digest of their content. Rows are added, never changed.

CREATE TABLE graphs (
  n INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  team TEXT NOT NULL,
  saved_at INTEGER NOT NULL,
  content BLOB NOT NULL
) STRICT;
CREATE INDEX graphs_of_team ON graphs (team, n);
