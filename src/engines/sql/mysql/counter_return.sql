-- No caller has heard the reply: what was taken goes back.
SELECT 1 FROM hf_lock WHERE name = :name FOR UPDATE;
UPDATE hf_lock l JOIN hf_hold h ON h.name = l.name
SET l.value = l.value + h.permits
WHERE l.name = :name AND l.kind = 5 AND h.owner = :owner AND h.mode = 6;
DELETE FROM hf_hold WHERE name = :name AND owner = :owner;
DELETE FROM hf_wait WHERE name = :name AND (owner = :owner OR expires_us <= @now@);
-- include parts/wake.inc.sql
