-- The receipt (a row of hf_hold) says to an asker without a reply that it was done. A new one has
-- "fixed" 2 until its units are taken off.
-- include parts/use_name.inc.sql
DELETE FROM hf_wait WHERE name = :name AND expires_us <= @now@ AND owner <> :owner;
INSERT IGNORE INTO hf_hold (name, owner, mode, fixed, permits, token, since_us, expires_us, info)
SELECT :name, :owner, 6, 2, :permits, 0, @now@, @now@ + 86400000000, :info
FROM hf_lock l
WHERE l.name = :name AND l.kind = 5 AND l.value >= :permits
  AND NOT EXISTS (SELECT 1 FROM hf_wait w WHERE w.name = :name AND w.owner <> :owner
    AND w.seq < COALESCE((SELECT m.seq FROM hf_wait m
      WHERE m.name = :name AND m.owner = :owner), 9223372036854775807));
UPDATE hf_lock l JOIN hf_hold h ON h.name = l.name
SET l.value = l.value - :permits, h.fixed = 1
WHERE l.name = :name AND h.owner = :owner AND h.mode = 6 AND h.fixed = 2;
DELETE w FROM hf_wait w JOIN hf_hold h ON h.name = w.name AND h.owner = w.owner
WHERE w.name = :name AND w.owner = :owner;
INSERT INTO hf_wait (name, owner, mode, fixed, permits, lease_us, since_us, expires_us, info)
SELECT :name, :owner, 6, 0, :permits, :lease_us, @now@, @now@ + :place_us, :info
FROM hf_lock l
WHERE l.name = :name AND :enqueue = 1 AND (l.kind IN (0, 5) OR (l.kind IN (1, 2, 3)
    AND (l.owner IS NULL OR l.expires_us <= @now@)
    AND NOT EXISTS (SELECT 1 FROM hf_hold h WHERE h.name = :name AND h.mode <> 6)))
  AND NOT EXISTS (SELECT 1 FROM hf_hold h WHERE h.name = :name AND h.owner = :owner)
ON DUPLICATE KEY UPDATE expires_us = VALUES(expires_us);
SELECT CONCAT('hf_', LOWER(HEX(SUBSTR(w.owner, 1, 16)))) AS hf_notify
FROM (SELECT owner FROM hf_wait WHERE name = :name ORDER BY seq LIMIT 1) w
WHERE w.owner <> :owner
  AND EXISTS (SELECT 1 FROM hf_hold h WHERE h.name = :name AND h.owner = :owner);
SELECT CASE
    WHEN EXISTS (SELECT 1 FROM hf_hold h WHERE h.name = :name AND h.owner = :owner) THEN 1
    WHEN l.kind IN (4, 6, 7) OR (l.kind IN (1, 2) AND l.owner IS NOT NULL
      AND l.expires_us > @now@) OR (l.kind = 3 AND EXISTS (SELECT 1 FROM hf_hold h
      WHERE h.name = :name AND h.expires_us > @now@ AND h.mode <> 6)) THEN 20 + l.kind
    ELSE 0 END, 0, 9223372036854775807,
  (SELECT COUNT(*) FROM hf_wait w WHERE w.name = :name
    AND w.seq <= (SELECT m.seq FROM hf_wait m WHERE m.name = :name AND m.owner = :owner))
FROM hf_lock l WHERE l.name = :name;
