-- A mutex goes from its owner to the first waiter, or is free. No row: it is not this owner's; then
-- mutex_hand_over decides. That others are left is not looked for: "waiting" stays 1. What stands
-- behind the commit is sent in the same message.
-- answer
SELECT 1 FROM hf_lock WHERE name = :name AND owner = :owner AND expires_us > @now@ FOR UPDATE;
UPDATE hf_lock l
  -- mutant: mysql-last-comes-first
  JOIN (SELECT * FROM hf_wait WHERE name = :name AND expires_us > @now@ ORDER BY seq LIMIT 1) w
    ON w.name = l.name
SET l.token = GREATEST(l.token + 1, @now@), l.since_us = @now@, l.fixed = w.fixed,
  l.info = w.info, l.kind = w.mode + 1, l.owner = w.owner,
  l.expires_us = @now@ + LEAST(w.lease_us, :hand_us)
WHERE l.name = :name AND l.owner = :owner AND l.expires_us > @now@ AND w.mode IN (0, 1);
SET @hf_notify = (SELECT CONCAT('hf_', LOWER(HEX(SUBSTR(w.owner, 1, 16))))
  FROM hf_wait w JOIN hf_lock l ON l.name = w.name WHERE w.name = :name AND w.owner = l.owner);
DELETE w FROM hf_wait w JOIN hf_lock l ON l.name = w.name
WHERE w.name = :name AND w.owner = l.owner;
UPDATE hf_lock SET owner = NULL, expires_us = 0, waiting = 0
WHERE name = :name AND owner = :owner AND expires_us > @now@;
KILL QUERY COALESCE(IS_USED_LOCK(@hf_notify), 0);
