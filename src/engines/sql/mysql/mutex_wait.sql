-- A place behind a living owner. No row: the name is free or unused, or another kind's; then
-- mutex_queue decides. The first statement locks the row, whatever it changes.
-- mutant: mysql-place-without-its-flag
UPDATE hf_lock SET waiting = GREATEST(waiting, :enqueue) WHERE name = :name;
INSERT INTO hf_wait (name, owner, mode, fixed, permits, lease_us, since_us, expires_us, info)
SELECT :name, :owner, :mode, :fixed, 1, :lease_us, @now@, @now@ + :place_us, :info
FROM hf_lock l
WHERE l.name = :name AND l.kind = :kind AND :enqueue = 1
  AND l.owner <> :owner AND l.expires_us > @now@
ON DUPLICATE KEY UPDATE expires_us = VALUES(expires_us);
SELECT 0, l.token, GREATEST(l.expires_us - @now@, 0),
  (SELECT COUNT(*) FROM hf_wait w WHERE w.name = :name
    AND w.seq <= (SELECT m.seq FROM hf_wait m WHERE m.name = :name AND m.owner = :owner))
FROM hf_lock l
WHERE l.name = :name AND l.kind = :kind AND l.owner <> :owner AND l.expires_us > @now@
  AND (:enqueue = 0 OR EXISTS (SELECT 1 FROM hf_wait w WHERE w.name = :name AND w.owner = :owner));
