SELECT 1 FROM hf_lock WHERE name = :name FOR UPDATE;
DELETE FROM hf_hold WHERE name = :name AND expires_us <= @now@;
DELETE FROM hf_wait WHERE name = :name AND expires_us <= @now@ AND owner <> :owner;
-- A mutex and a fair mutex are two kinds, as long as either is in use.
-- include parts/take_kind.inc.sql
UPDATE hf_lock l SET owner = :owner, kind = :kind, fixed = :fixed, info = :info,
  token = CASE WHEN l.owner = :owner THEN l.token ELSE greatest(l.token + 1, @now@) END,
  since_us = CASE WHEN l.owner = :owner THEN l.since_us ELSE @now@ END,
  expires_us = @now@ + :lease_us
WHERE l.name = :name AND l.kind = :kind
  AND (l.owner = :owner
    OR ((l.owner IS NULL OR l.expires_us <= @now@)
      AND NOT EXISTS (SELECT FROM hf_wait w WHERE w.name = :name AND w.owner <> :owner
        AND w.seq < coalesce((SELECT m.seq FROM hf_wait m
          WHERE m.name = :name AND m.owner = :owner), 9223372036854775807))));
DELETE FROM hf_wait w USING hf_lock l
WHERE w.name = :name AND w.owner = :owner AND l.name = :name AND l.owner = :owner;
INSERT INTO hf_wait (name, owner, mode, fixed, permits, lease_us, since_us, expires_us, info)
SELECT :name, :owner, :mode, :fixed, 1, :lease_us, @now@, @now@ + :place_us, :info
FROM hf_lock l
WHERE l.name = :name AND l.kind = :kind AND :enqueue = 1 AND l.owner IS DISTINCT FROM :owner
ON CONFLICT (name, owner) DO UPDATE SET expires_us = excluded.expires_us;
UPDATE hf_lock SET waiting = 1 - waiting
WHERE name = :name AND kind = :kind
  AND waiting <> CASE WHEN EXISTS (SELECT FROM hf_wait w WHERE w.name = :name) THEN 1 ELSE 0 END;
SELECT CASE WHEN l.kind <> :kind THEN 20 + l.kind WHEN l.owner = :owner THEN 1 ELSE 0 END, l.token,
  greatest(l.expires_us - @now@, 0),
  (SELECT count(*) FROM hf_wait w WHERE w.name = :name
    AND w.seq <= (SELECT m.seq FROM hf_wait m WHERE m.name = :name AND m.owner = :owner))
FROM hf_lock l WHERE l.name = :name;
