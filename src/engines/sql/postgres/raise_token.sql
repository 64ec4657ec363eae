-- A grant whose token may be too low, before the client hears of it: not above the client's floor, or
-- older than that of a row that was forgotten meanwhile. The name's next tokens are larger still. No
-- row: the lease is over by now.
SELECT 1 FROM hf_lock WHERE name = :name FOR UPDATE;
UPDATE hf_lock SET token = greatest(:value + 1, @now@)
WHERE name = :name AND owner = :owner AND expires_us > @now@ AND token <= :value;
UPDATE hf_hold h
SET token = greatest(:value + 1, @now@, l.token + CASE WHEN h.mode IN (2, 3) THEN 0 ELSE 1 END)
FROM hf_lock l
WHERE l.name = h.name AND h.name = :name AND h.owner = :owner AND h.expires_us > @now@
  AND h.token <= :value;
UPDATE hf_lock l SET token = h.token FROM hf_hold h
WHERE l.name = :name AND h.name = :name AND h.owner = :owner AND h.token > l.token;
SELECT 1, token FROM hf_lock WHERE name = :name AND owner = :owner AND expires_us > @now@
UNION ALL
SELECT 1, token FROM hf_hold WHERE name = :name AND owner = :owner AND expires_us > @now@;
