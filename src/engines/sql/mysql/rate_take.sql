-- A rate limiter: "value" is when its whole burst is there again. "since_us" is the moment of this
-- statement's decision.
-- include parts/use_name.inc.sql
DELETE FROM hf_wait WHERE name = :name AND expires_us <= @now@;
DELETE FROM hf_hold WHERE name = :name AND expires_us <= @now@;
UPDATE hf_lock SET waiting = 0, owner = NULL, expires_us = 0, value = 0, kind = 7
WHERE name = :name
  AND (kind IN (0, 3) OR (kind IN (1, 2) AND (owner IS NULL OR expires_us <= @now@)))
  AND NOT EXISTS (SELECT 1 FROM hf_hold h WHERE h.name = :name)
  AND NOT EXISTS (SELECT 1 FROM hf_wait w WHERE w.name = :name);
UPDATE hf_lock SET since_us = @now@ WHERE name = :name AND kind = 7;
-- answer
SELECT CASE WHEN kind <> 7 THEN 20 + kind
    WHEN GREATEST(value, since_us) + :cost_us - :burst_us - since_us <= :wait_us THEN 1 ELSE 0 END,
  CASE WHEN kind = 7 THEN GREATEST(value, since_us) + :cost_us - :burst_us - since_us ELSE 0 END
FROM hf_lock WHERE name = :name;
-- mutant: mysql-limiter-takes-more
UPDATE hf_lock SET value = GREATEST(value, since_us) + :cost_us
WHERE name = :name AND kind = 7 AND GREATEST(value, since_us) + :cost_us - :burst_us - since_us <= :wait_us;
