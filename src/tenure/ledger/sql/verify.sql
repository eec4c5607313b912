-- Statements of the verification: they read everything, in streams.

-- name: trees
SELECT root_id, state FROM trees ORDER BY root_id

-- name: tasks_of_tree
SELECT state, lease_until, head, due_at, revision, phase FROM tasks WHERE root_id = ? ORDER BY task_id

-- name: events_of_task
SELECT position, root_id, task_id, seq, epoch, digest, event FROM events WHERE root_id = ? AND task_id = ?
ORDER BY position

-- name: effects_of_task
SELECT state FROM effects WHERE root_id = ? AND task_id = ?

-- name: bodies_of_tree
SELECT digest, nonce, content FROM bodies WHERE root_id = ?

-- name: count_events
SELECT count(*) FROM events

-- name: count_tasks
SELECT count(*) FROM tasks

-- name: integrity
PRAGMA integrity_check
