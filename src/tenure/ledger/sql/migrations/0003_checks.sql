-- When somebody should look after an effect again (0: never), and how many works of a task are residual.

ALTER TABLE effects ADD COLUMN check_at INTEGER NOT NULL DEFAULT 0;
UPDATE effects SET check_at = coalesce(json_extract(CAST(state AS TEXT), '$.next_check'), 0) WHERE settled = 0;
CREATE INDEX effects_to_check ON effects (check_at) WHERE check_at > 0;

ALTER TABLE tasks ADD COLUMN residual INTEGER NOT NULL DEFAULT 0;
UPDATE tasks SET residual = (
  SELECT count(*) FROM json_each(CAST(state AS TEXT), '$.works') WHERE json_extract(value, '$.state') = 'residual'
);
CREATE INDEX tasks_with_residual ON tasks (position) WHERE residual > 0;
