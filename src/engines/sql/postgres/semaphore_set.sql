-- include parts/use_name.inc.sql
DELETE FROM hf_hold WHERE name = :name AND expires_us <= @now@;
DELETE FROM hf_wait WHERE name = :name AND expires_us <= @now@;
-- include parts/take_kind.inc.sql
UPDATE hf_lock SET value = :value WHERE name = :name AND kind = 4 AND :value > 0;
UPDATE hf_lock SET value = 0, kind = 0 WHERE name = :name AND kind = 4 AND :value = 0
  AND NOT EXISTS (SELECT FROM hf_hold h WHERE h.name = :name AND h.mode <> 6);
-- Requests for more than there are must hear of it, wherever they stand.
SELECT pg_notify('hf_' || encode(substr(w.owner, 1, 16), 'hex'),
  encode(substr(w.owner, 17), 'hex'))
FROM hf_wait w WHERE w.name = :name AND w.mode = 5;
SELECT CASE WHEN kind = 4 AND :value > 0 THEN 1 WHEN kind = 4 THEN 0
  WHEN :value = 0 AND kind IN (0, 1, 2, 3) AND (owner IS NULL OR expires_us <= @now@)
    AND NOT EXISTS (SELECT FROM hf_hold h WHERE h.name = :name AND h.mode <> 6) THEN 1
  ELSE 20 + kind END, value
FROM hf_lock WHERE name = :name;
