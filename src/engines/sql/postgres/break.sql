SELECT 1 FROM hf_lock WHERE name = :name FOR UPDATE;
DELETE FROM hf_wait WHERE name = :name AND expires_us <= @now@;
-- answer
SELECT count(*), count(*) FILTER (WHERE o.owner = :key OR :key IS NULL)
FROM (SELECT owner FROM hf_lock WHERE name = :name AND owner IS NOT NULL AND expires_us > @now@
  UNION ALL
  SELECT owner FROM hf_hold WHERE name = :name AND expires_us > @now@ AND mode <> 6) o;
UPDATE hf_lock SET owner = NULL, expires_us = 0
WHERE name = :name AND owner IS NOT NULL AND (owner = :key OR :key IS NULL);
DELETE FROM hf_hold WHERE name = :name AND mode <> 6 AND (owner = :key OR :key IS NULL);
-- include parts/pass_on.inc.sql
-- include parts/wake.inc.sql
