-- :verb 0: get, 1: set, 2: down. The answer is what the latch was at, and is at.
-- include parts/use_name.inc.sql
DELETE FROM hf_wait WHERE name = :name AND expires_us <= @now@;
DELETE FROM hf_hold WHERE name = :name AND expires_us <= @now@;
UPDATE hf_lock SET kind = 6, waiting = 0, owner = NULL, expires_us = 0, value = 0
WHERE name = :name AND (:verb = 1 AND :value > 0)
  AND (kind IN (0, 3) OR (kind IN (1, 2) AND (owner IS NULL OR expires_us <= @now@)))
  AND NOT EXISTS (SELECT FROM hf_hold h WHERE h.name = :name AND h.mode <> 6)
  AND NOT EXISTS (SELECT FROM hf_wait w WHERE w.name = :name AND w.mode <> 7);
-- answer
SELECT CASE
    WHEN kind = 6 AND :verb = 1 AND value > 0 THEN 0
    WHEN kind = 6 THEN 1
    WHEN kind IN (0, 3) AND NOT EXISTS (SELECT FROM hf_hold h
      WHERE h.name = :name AND h.mode <> 6) THEN 1
    WHEN kind IN (1, 2) AND (owner IS NULL OR expires_us <= @now@) THEN 1
    ELSE 20 + kind END,
  CASE WHEN kind <> 6 THEN 0 WHEN :verb = 2 THEN greatest(value - :value, 0)
    WHEN :verb = 1 AND value = 0 THEN :value ELSE value END
FROM hf_lock WHERE name = :name;
UPDATE hf_lock SET value = CASE WHEN :verb = 1 THEN :value ELSE greatest(value - :value, 0) END
WHERE name = :name AND kind = 6 AND (:verb = 2 OR (:verb = 1 AND value = 0));
UPDATE hf_lock SET kind = 0 WHERE name = :name AND kind = 6 AND value = 0;
SELECT pg_notify('hf_' || encode(substr(w.owner, 1, 16), 'hex'),
  encode(substr(w.owner, 17), 'hex'))
FROM hf_wait w WHERE w.name = :name AND w.mode = 7
  AND NOT EXISTS (SELECT FROM hf_lock l WHERE l.name = :name AND l.kind = 6);
