SELECT 1 FROM hf_lock WHERE name = :name FOR UPDATE;
-- answer
SELECT 1 FROM hf_lock WHERE name = :name AND owner = :owner AND expires_us > @now@;
DELETE FROM hf_wait WHERE name = :name AND (owner = :owner OR expires_us <= @now@);
-- include parts/pass_on.inc.sql
