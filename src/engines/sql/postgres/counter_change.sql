-- :verb 0: get, 1: set, 2: add, 3: remove.
-- include parts/use_name.inc.sql
DELETE FROM hf_wait WHERE name = :name AND expires_us <= @now@;
DELETE FROM hf_hold WHERE name = :name AND expires_us <= @now@;
UPDATE hf_lock SET kind = 5, waiting = 0, owner = NULL, expires_us = 0, value = 0
WHERE name = :name AND :verb IN (1, 2)
  AND (kind IN (0, 3) OR (kind IN (1, 2) AND (owner IS NULL OR expires_us <= @now@)))
  AND NOT EXISTS (SELECT FROM hf_hold h WHERE h.name = :name AND h.mode <> 6)
  AND NOT EXISTS (SELECT FROM hf_wait w WHERE w.name = :name AND w.mode <> 6);
-- answer
SELECT CASE
    WHEN kind = 5 AND :verb = 2 AND value + :value > 4294967295 THEN 3
    WHEN kind = 5 THEN 1
    WHEN kind IN (0, 3) AND NOT EXISTS (SELECT FROM hf_hold h
      WHERE h.name = :name AND h.mode <> 6) THEN 1
    WHEN kind IN (1, 2) AND (owner IS NULL OR expires_us <= @now@) THEN 1
    ELSE 20 + kind END,
  CASE WHEN kind = 5 THEN value ELSE 0 END
FROM hf_lock WHERE name = :name;
UPDATE hf_lock SET value = CASE WHEN :verb = 1 THEN :value ELSE value + :value END
WHERE name = :name AND kind = 5 AND (:verb = 1 OR (:verb = 2 AND value + :value <= 4294967295));
UPDATE hf_lock SET value = 0, kind = 0 WHERE name = :name AND kind = 5 AND :verb = 3;
-- Units that were taken before do not come back to the new value.
-- mutant: units-of-former-value-return
UPDATE hf_hold SET permits = 0 WHERE name = :name AND mode = 6 AND :verb IN (1, 3);
-- include parts/wake.inc.sql
