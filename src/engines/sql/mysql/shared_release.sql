SELECT 1 FROM hf_lock WHERE name = :name FOR UPDATE;
-- answer
SELECT 1 FROM hf_hold WHERE name = :name AND owner = :owner AND expires_us > @now@;
DELETE FROM hf_wait WHERE name = :name AND (owner = :owner OR expires_us <= @now@);
DELETE FROM hf_hold WHERE name = :name
  AND ((owner = :owner AND :keep < 0) OR expires_us <= @now@);
-- A downgrade that comes late must not undo an upgrade that followed it, which has a larger token.
UPDATE hf_hold SET mode = :keep
WHERE name = :name AND owner = :owner AND mode > :keep AND token <= :value;
-- include parts/wake.inc.sql
