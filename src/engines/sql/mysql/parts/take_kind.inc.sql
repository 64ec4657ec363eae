-- A name that nothing is left of becomes a thing of another kind. Readers take over its token,
-- which may be that of a late statement whose client died before it was raised.
UPDATE hf_lock SET value = IF(:kind = 4, :limit, 0), waiting = 0, owner = NULL, expires_us = 0,
  -- mutant: mysql-readers-take-over-a-late-token
  token = GREATEST(token, @now@),
  kind = :kind
WHERE name = :name AND kind <> :kind AND (:kind <> 4 OR (:limit > 0 AND :permits <= :limit))
  AND (kind IN (0, 3) OR (kind IN (1, 2) AND (owner IS NULL OR expires_us <= @now@)))
  AND NOT EXISTS (SELECT 1 FROM hf_hold h WHERE h.name = :name AND h.mode <> 6)
  AND NOT EXISTS (SELECT 1 FROM hf_wait w WHERE w.name = :name);
