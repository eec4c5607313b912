-- Statements of the readers.

-- name: now
SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)

-- name: newest
SELECT coalesce(max(position), 0) FROM events

-- name: task
SELECT state, position, lease_until, due_at FROM tasks WHERE root_id = ? AND task_id = ?

-- name: tasks
SELECT state, position, lease_until, due_at FROM tasks WHERE position > ? ORDER BY position LIMIT ?

-- name: tasks_in_phase
SELECT state, position, lease_until, due_at FROM tasks WHERE phase = ? AND position > ? ORDER BY position LIMIT ?

-- name: tasks_of_root
SELECT state, position, lease_until, due_at FROM tasks WHERE root_id = ? AND position > ? ORDER BY position

-- name: tree
SELECT state FROM trees WHERE root_id = ?

-- name: effects
SELECT state FROM effects WHERE root_id = ? AND task_id = ? ORDER BY position

-- name: open_effects
SELECT state FROM effects WHERE root_id = ? AND task_id = ? AND settled = 0 ORDER BY position

-- name: effects_due
SELECT state FROM effects WHERE check_at > 0 AND check_at <= ? ORDER BY check_at LIMIT ?

-- name: effect_rows
SELECT state, position FROM effects WHERE position > ? ORDER BY position LIMIT ?

-- name: effect_rows_open
SELECT state, position FROM effects WHERE check_at > 0 AND position > ? ORDER BY position LIMIT ?

-- name: tasks_with_residual
SELECT state, position, lease_until, due_at FROM tasks WHERE residual > 0 AND position > ? ORDER BY position LIMIT ?

-- name: effect_counts
SELECT phase, count(*) FROM effects GROUP BY phase ORDER BY phase

-- name: messages
SELECT inputs.n, inputs.at, inputs.sender, inputs.question_id, inputs.digest, bodies.nonce, bodies.content
FROM inputs LEFT JOIN bodies ON bodies.root_id = inputs.root_id AND bodies.digest = inputs.digest
WHERE inputs.root_id = ? AND inputs.task_id = ? AND inputs.n > ? ORDER BY inputs.n LIMIT ?

-- name: body
SELECT nonce, content FROM bodies WHERE root_id = ? AND digest = ?

-- name: graph
SELECT digest, n, saved_at, content FROM graphs WHERE digest = ?

-- name: graphs
SELECT digest, n, saved_at, content FROM graphs ORDER BY n DESC LIMIT ?

-- name: graphs_of_team
SELECT digest, n, saved_at, content FROM graphs WHERE team = ? ORDER BY n DESC LIMIT ?

-- name: conversation
SELECT task_id FROM conversations WHERE conversation = ?

-- name: offers
SELECT position, root_id, task_id, epoch, agent, kind, payload, issued_at, deadline FROM offers
WHERE agent = ? AND deadline > ? ORDER BY position LIMIT ?

-- name: overdue
SELECT task_id FROM tasks WHERE due_at <= ? ORDER BY due_at, root_id, task_id LIMIT ?

-- name: instances
SELECT instance_id, name, host, boot, pid, started, lease_ms, seen_at, ended_at FROM instances ORDER BY n DESC

-- name: open_instances
SELECT instance_id, name, host, boot, pid, started, lease_ms, seen_at, ended_at FROM instances
WHERE n IN (
  SELECT n FROM instances INDEXED BY instances_running WHERE ended_at = 0
  UNION ALL
  SELECT one.n FROM holdings CROSS JOIN instances AS one USING (instance_id)
) ORDER BY n DESC

-- name: held_by
SELECT DISTINCT task_id FROM holdings WHERE instance_id = ? ORDER BY root_id, task_id

-- name: events
SELECT position, root_id, task_id, seq, epoch, digest, event FROM events WHERE position > ? ORDER BY position LIMIT ?

-- name: events_of_task
SELECT position, root_id, task_id, seq, epoch, digest, event FROM events
WHERE root_id = ? AND task_id = ? AND position > ? ORDER BY position LIMIT ?

-- name: refusals
SELECT position, note FROM audit WHERE position > ? ORDER BY position LIMIT ?

-- name: refusals_of_task
SELECT position, note FROM audit WHERE root_id = ? AND task_id = ? AND position > ? ORDER BY position LIMIT ?
