-- Statements of the verification: they read everything, in streams that go through the trees and tasks in one order.
-- Where no index has that order, SQLite sorts: only what is held now.

-- name: trees
SELECT root_id, state FROM trees ORDER BY root_id

-- name: tasks_of_tree
SELECT task_id, position, revision, phase, due_at, lease_until, residual, head, state FROM tasks WHERE root_id = ?
ORDER BY task_id

-- name: events_of_task
SELECT position, root_id, task_id, seq, epoch, digest, event FROM events WHERE root_id = ? AND task_id = ?
ORDER BY position

-- name: effects
SELECT root_id, task_id, effect_id, intent, phase, settled, version, check_at, state FROM effects ORDER BY root_id, task_id

-- name: inputs
SELECT root_id, task_id, n, at, sender, question_id, digest FROM inputs ORDER BY root_id, task_id, n

-- name: offers
SELECT root_id, task_id, agent, position, epoch, kind, payload, issued_at, deadline FROM offers
ORDER BY root_id, task_id, agent

-- name: holdings
SELECT root_id, task_id, instance_id, source FROM holdings ORDER BY root_id, task_id

-- name: commands
SELECT root_id, command_id, receipt FROM commands ORDER BY root_id, command_id

-- name: bodies_of_tree
SELECT digest, nonce, content FROM bodies WHERE root_id = ?

-- name: conversing
SELECT conversations.task_id, coalesce(tasks.position, 0) FROM conversations
LEFT JOIN tasks ON tasks.root_id = conversations.task_id AND tasks.task_id = conversations.task_id
WHERE conversation = ?

-- name: graphs
SELECT digest, team, content FROM graphs ORDER BY n

-- name: count_conversations
SELECT count(*) FROM conversations

-- name: count_events
SELECT count(*) FROM events

-- name: count_tasks
SELECT count(*) FROM tasks

-- name: integrity
PRAGMA integrity_check
