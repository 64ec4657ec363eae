-- A mutex that is this owner's, or free, goes to the head of its queue.
UPDATE hf_lock l SET owner = w.owner, kind = w.mode + 1, fixed = w.fixed, info = w.info,
  token = greatest(l.token + 1, @now@), since_us = @now@,
  expires_us = @now@ + least(w.lease_us, :hand_us)
FROM (SELECT * FROM hf_wait WHERE name = :name ORDER BY seq LIMIT 1) w
WHERE l.name = :name AND w.mode IN (0, 1) AND l.kind IN (1, 2)
  AND (l.owner IS NULL OR l.owner = :owner OR l.expires_us <= @now@);
UPDATE hf_lock SET owner = NULL, expires_us = 0 WHERE name = :name AND owner = :owner;
WITH given AS (
  DELETE FROM hf_wait w USING hf_lock l
  WHERE l.name = :name AND w.name = :name AND w.owner = l.owner RETURNING w.owner)
SELECT pg_notify('hf_' || encode(substr(owner, 1, 16), 'hex'), encode(substr(owner, 17), 'hex'))
FROM given;
UPDATE hf_lock SET waiting = 1 - waiting
WHERE name = :name AND kind IN (1, 2)
  AND waiting <> CASE WHEN EXISTS (SELECT FROM hf_wait w WHERE w.name = :name) THEN 1 ELSE 0 END;
