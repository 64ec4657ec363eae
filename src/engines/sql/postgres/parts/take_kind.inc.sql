-- A name that nothing is left of becomes a thing of another kind. Readers take over its token,
-- which may be that of a late statement whose client died before it was raised.
UPDATE hf_lock SET kind = :kind, waiting = 0, owner = NULL, expires_us = 0,
  -- mutant: postgres-readers-take-over-a-late-token
  token = greatest(token, @now@),
  value = CASE WHEN :kind = 4 THEN :limit ELSE 0 END
-- mutant: wish-that-cannot-be-had
WHERE name = :name AND kind <> :kind AND (:kind <> 4 OR (:limit > 0 AND :permits <= :limit))
  AND (kind IN (0, 3) OR (kind IN (1, 2) AND (owner IS NULL OR expires_us <= @now@)))
  AND NOT EXISTS (SELECT FROM hf_hold h WHERE h.name = :name AND h.mode <> 6)
  AND NOT EXISTS (SELECT FROM hf_wait w WHERE w.name = :name);
