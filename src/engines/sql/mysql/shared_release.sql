SELECT 1 FROM hf_lock WHERE name = :name FOR UPDATE;
-- answer
SELECT 1 FROM hf_hold WHERE name = :name AND owner = :owner AND expires_us > @now@;
DELETE FROM hf_wait WHERE name = :name AND (owner = :owner OR expires_us <= @now@);
DELETE FROM hf_hold WHERE name = :name
  AND ((owner = :owner AND :keep < 0) OR expires_us <= @now@);
UPDATE hf_hold SET mode = :keep WHERE name = :name AND owner = :owner AND mode > :keep;
-- include parts/wake.inc.sql
