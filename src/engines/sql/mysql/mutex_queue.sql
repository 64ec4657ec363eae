SELECT 1 FROM hf_lock WHERE name = :name FOR UPDATE;
DELETE FROM hf_hold WHERE name = :name AND expires_us <= @now@;
DELETE FROM hf_wait WHERE name = :name AND expires_us <= @now@ AND owner <> :owner;
-- A mutex and a fair mutex are two kinds, as long as either is in use.
-- include parts/take_kind.inc.sql
UPDATE hf_lock l SET
  l.token = IF(l.owner <=> :owner, l.token, GREATEST(l.token + 1, @now@)),
  l.since_us = IF(l.owner <=> :owner, l.since_us, @now@),
  l.owner = :owner, l.fixed = :fixed, l.info = :info, l.expires_us = @now@ + :lease_us
WHERE l.name = :name AND l.kind = :kind
  AND (l.owner = :owner
    OR ((l.owner IS NULL OR l.expires_us <= @now@)
      AND NOT EXISTS (SELECT 1 FROM hf_wait w WHERE w.name = :name AND w.owner <> :owner
        AND w.seq < COALESCE((SELECT m.seq FROM hf_wait m
          WHERE m.name = :name AND m.owner = :owner), 9223372036854775807))));
DELETE w FROM hf_wait w JOIN hf_lock l ON l.name = w.name
WHERE w.name = :name AND w.owner = :owner AND l.owner = :owner;
INSERT INTO hf_wait (name, owner, mode, fixed, permits, lease_us, since_us, expires_us, info)
SELECT :name, :owner, :mode, :fixed, 1, :lease_us, @now@, @now@ + :place_us, :info
FROM hf_lock l
WHERE l.name = :name AND l.kind = :kind AND :enqueue = 1 AND NOT (l.owner <=> :owner)
ON DUPLICATE KEY UPDATE expires_us = VALUES(expires_us);
UPDATE hf_lock SET waiting = 1 - waiting
WHERE name = :name AND kind = :kind
  AND waiting <> IF(EXISTS (SELECT 1 FROM hf_wait w WHERE w.name = :name), 1, 0);
SELECT CASE WHEN l.kind <> :kind THEN 20 + l.kind WHEN l.owner = :owner THEN 1 ELSE 0 END, l.token,
  GREATEST(l.expires_us - @now@, 0),
  (SELECT COUNT(*) FROM hf_wait w WHERE w.name = :name
    AND w.seq <= (SELECT m.seq FROM hf_wait m WHERE m.name = :name AND m.owner = :owner))
FROM hf_lock l WHERE l.name = :name;
