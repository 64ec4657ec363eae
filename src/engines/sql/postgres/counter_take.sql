-- The receipt (a row of hf_hold) says to an asker without a reply that it was done.
-- include parts/use_name.inc.sql
DELETE FROM hf_wait WHERE name = :name AND expires_us <= @now@ AND owner <> :owner;
WITH taken AS (
  UPDATE hf_lock l SET value = value - :permits
  WHERE l.name = :name AND l.kind = 5 AND l.value >= :permits
    AND NOT EXISTS (SELECT FROM hf_hold h WHERE h.name = :name AND h.owner = :owner)
    AND NOT EXISTS (SELECT FROM hf_wait w WHERE w.name = :name AND w.owner <> :owner
      AND w.seq < coalesce((SELECT m.seq FROM hf_wait m
        WHERE m.name = :name AND m.owner = :owner), 9223372036854775807))
  RETURNING name)
INSERT INTO hf_hold (name, owner, mode, fixed, permits, token, since_us, expires_us, info)
SELECT name, :owner, 6, 1, :permits, 0, @now@, @now@ + 86400000000, :info FROM taken;
DELETE FROM hf_wait w USING hf_hold h
WHERE w.name = :name AND w.owner = :owner AND h.name = :name AND h.owner = :owner;
INSERT INTO hf_wait (name, owner, mode, fixed, permits, lease_us, since_us, expires_us, info)
SELECT :name, :owner, 6, 0, :permits, :lease_us, @now@, @now@ + :place_us, :info
FROM hf_lock l
WHERE l.name = :name AND :enqueue = 1 AND (l.kind IN (0, 5) OR (l.kind IN (1, 2, 3)
    AND (l.owner IS NULL OR l.expires_us <= @now@)
    AND NOT EXISTS (SELECT FROM hf_hold h WHERE h.name = :name AND h.mode <> 6)))
  AND NOT EXISTS (SELECT FROM hf_hold h WHERE h.name = :name AND h.owner = :owner)
ON CONFLICT (name, owner) DO UPDATE SET expires_us = excluded.expires_us;
SELECT pg_notify('hf_' || encode(substr(w.owner, 1, 16), 'hex'),
  encode(substr(w.owner, 17), 'hex'))
FROM (SELECT owner FROM hf_wait WHERE name = :name ORDER BY seq LIMIT 1) w
WHERE w.owner <> :owner
  AND EXISTS (SELECT FROM hf_hold h WHERE h.name = :name AND h.owner = :owner);
SELECT CASE
    WHEN EXISTS (SELECT FROM hf_hold h WHERE h.name = :name AND h.owner = :owner) THEN 1
    WHEN l.kind IN (4, 6, 7) OR (l.kind IN (1, 2) AND l.owner IS NOT NULL
      AND l.expires_us > @now@) OR (l.kind = 3 AND EXISTS (SELECT FROM hf_hold h
      WHERE h.name = :name AND h.expires_us > @now@ AND h.mode <> 6)) THEN 20 + l.kind
    ELSE 0 END, 0::bigint, 9223372036854775807,
  (SELECT count(*) FROM hf_wait w WHERE w.name = :name
    AND w.seq <= (SELECT m.seq FROM hf_wait m WHERE m.name = :name AND m.owner = :owner))
FROM hf_lock l WHERE l.name = :name;
