-- Statements of the writer: each touches rows by key, whatever the size of the ledger.

-- name: now
SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)

-- name: data_version
PRAGMA data_version

-- name: last_position
SELECT coalesce(max(position), 0) FROM events

-- name: recorded
SELECT digest, receipt FROM commands WHERE root_id = ? AND command_id = ?

-- name: held
SELECT state, lease_until, head FROM tasks WHERE root_id = ? AND task_id = ?

-- name: tree
SELECT state FROM trees WHERE root_id = ?

-- name: effect
SELECT state FROM effects WHERE root_id = ? AND effect_id = ?

-- name: intended
SELECT state FROM effects WHERE root_id = ? AND intent = ? ORDER BY position

-- name: open_effects
SELECT state FROM effects WHERE root_id = ? AND task_id = ? AND settled = 0 ORDER BY position

-- name: conversing
SELECT task_id FROM conversations WHERE conversation = ?

-- name: graph
SELECT content FROM graphs WHERE digest = ?

-- name: save_graph
INSERT INTO graphs (digest, team, saved_at, content) VALUES (?, ?, ?, ?) ON CONFLICT (digest) DO NOTHING

-- name: ended
SELECT 1 FROM instances WHERE instance_id = ? AND ended_at > 0

-- name: add_event
INSERT INTO events (position, root_id, task_id, seq, epoch, digest, event) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: add_task
INSERT INTO tasks (position, root_id, task_id, revision, phase, due_at, lease_until, residual, head, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (root_id, task_id) DO NOTHING

-- name: change_task
UPDATE tasks SET revision = ?, phase = ?, due_at = ?, lease_until = ?, residual = ?, head = ?, state = ?
WHERE root_id = ? AND task_id = ? AND revision = ?

-- name: set_tree
INSERT INTO trees (root_id, state) VALUES (?, ?) ON CONFLICT (root_id) DO UPDATE SET state = excluded.state

-- name: add_effect
INSERT INTO effects (position, root_id, effect_id, task_id, intent, phase, settled, version, check_at, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: change_effect
UPDATE effects SET phase = ?, settled = ?, version = ?, check_at = ?, state = ?
WHERE root_id = ? AND effect_id = ? AND version = ?

-- name: add_body
INSERT INTO bodies (root_id, digest, nonce, content) VALUES (?, ?, ?, ?)
ON CONFLICT (root_id, digest) DO UPDATE SET nonce = excluded.nonce, content = excluded.content, erased_at = NULL
WHERE content IS NULL

-- name: add_input
INSERT INTO inputs (root_id, task_id, n, at, sender, question_id, digest) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: add_command
INSERT INTO commands (root_id, command_id, digest, receipt) VALUES (?, ?, ?, ?)

-- name: set_conversation
INSERT INTO conversations (conversation, task_id) VALUES (?, ?)
ON CONFLICT (conversation) DO UPDATE SET task_id = excluded.task_id

-- name: close_offer
DELETE FROM offers WHERE root_id = ? AND task_id = ?

-- name: open_offer
INSERT INTO offers (root_id, task_id, agent, position, epoch, kind, payload, issued_at, deadline)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: hold
INSERT INTO holdings (instance_id, root_id, task_id, source) VALUES (?, ?, ?, ?)

-- name: drop
DELETE FROM holdings WHERE instance_id = ? AND root_id = ? AND task_id = ? AND source = ?

-- name: prolong
UPDATE tasks SET lease_until = ?, due_at = ? WHERE root_id = ? AND task_id = ?

-- name: seen
UPDATE instances SET seen_at = ? WHERE instance_id = ? AND ended_at = 0

-- name: namesake
SELECT instance_id, name, host, boot, pid, started, lease_ms, seen_at, ended_at FROM instances
WHERE name = ? AND ended_at = 0 AND seen_at + lease_ms >= ? AND instance_id <> ? LIMIT 1

-- name: register
INSERT INTO instances (instance_id, name, host, boot, pid, started, lease_ms, seen_at, ended_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)
ON CONFLICT (instance_id) DO UPDATE SET
  name = excluded.name, host = excluded.host, boot = excluded.boot, pid = excluded.pid, started = excluded.started,
  lease_ms = excluded.lease_ms, seen_at = excluded.seen_at, ended_at = 0

-- name: retire_instance
UPDATE instances SET ended_at = ? WHERE instance_id = ? AND ended_at = 0

-- name: last_note
SELECT coalesce(max(position), 0) FROM audit

-- name: note
INSERT INTO audit (position, root_id, task_id, note) VALUES (?, ?, ?, ?)

-- name: stored_events
SELECT event FROM events WHERE root_id = ? AND task_id = ? ORDER BY position

-- name: others_unfinished
SELECT task_id FROM tasks WHERE root_id = ? AND due_at IS NOT NULL AND task_id <> ?

-- name: erase_body
UPDATE bodies SET nonce = NULL, content = NULL, erased_at = ?
WHERE root_id = ? AND digest = ? AND content IS NOT NULL
