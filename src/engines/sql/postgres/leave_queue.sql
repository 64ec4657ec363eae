SELECT 1 FROM hf_lock WHERE name = :name FOR UPDATE;
DELETE FROM hf_wait WHERE name = :name AND (owner = :owner OR expires_us <= @now@);
-- include parts/wake.inc.sql
