-- include parts/use_name.inc.sql
DELETE FROM hf_wait WHERE name = :name AND expires_us <= @now@ AND owner <> :owner;
INSERT INTO hf_wait (name, owner, mode, fixed, permits, lease_us, since_us, expires_us, info)
SELECT :name, :owner, 7, 0, 0, :lease_us, @now@, @now@ + :place_us, :info
FROM hf_lock l WHERE l.name = :name AND l.kind = 6 AND :enqueue = 1
ON DUPLICATE KEY UPDATE expires_us = VALUES(expires_us);
DELETE FROM hf_wait WHERE name = :name AND owner = :owner
  AND NOT EXISTS (SELECT 1 FROM hf_lock l WHERE l.name = :name AND l.kind = 6);
SELECT CASE WHEN l.kind = 6 THEN 0
    WHEN l.kind IN (4, 5, 7) OR (l.kind IN (1, 2) AND l.owner IS NOT NULL AND l.expires_us > @now@)
      OR (l.kind = 3 AND EXISTS (SELECT 1 FROM hf_hold h
        WHERE h.name = :name AND h.expires_us > @now@ AND h.mode <> 6)) THEN 20 + l.kind
    ELSE 1 END, 0, 9223372036854775807, 1
FROM hf_lock l WHERE l.name = :name;
