-- A mutex that is this owner's, or free, goes to the head of its queue.
UPDATE hf_lock l
  JOIN (SELECT * FROM hf_wait WHERE name = :name ORDER BY seq LIMIT 1) w ON w.name = l.name
SET l.token = GREATEST(l.token + 1, @now@), l.since_us = @now@, l.fixed = w.fixed,
  l.info = w.info, l.kind = w.mode + 1, l.owner = w.owner,
  l.expires_us = @now@ + LEAST(w.lease_us, :hand_us)
WHERE l.name = :name AND w.mode IN (0, 1) AND l.kind IN (1, 2)
  AND (l.owner IS NULL OR l.owner = :owner OR l.expires_us <= @now@);
UPDATE hf_lock SET owner = NULL, expires_us = 0 WHERE name = :name AND owner = :owner;
SELECT CONCAT('hf_', LOWER(HEX(SUBSTR(w.owner, 1, 16)))) AS hf_notify
FROM hf_wait w JOIN hf_lock l ON l.name = w.name
WHERE w.name = :name AND w.owner = l.owner;
DELETE w FROM hf_wait w JOIN hf_lock l ON l.name = w.name
WHERE w.name = :name AND w.owner = l.owner;
UPDATE hf_lock SET waiting = 1 - waiting
WHERE name = :name AND kind IN (1, 2)
  AND waiting <> IF(EXISTS (SELECT 1 FROM hf_wait w WHERE w.name = :name), 1, 0);
