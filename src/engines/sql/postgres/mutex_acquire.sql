-- No row: refused. Where it is this owner's already (it was handed over, or an earlier reply was
-- lost), it stays so, with the same token and a new lease.
INSERT INTO hf_lock AS l (name, kind, owner, fixed, token, since_us, expires_us, info)
VALUES (:name, :kind, :owner, :fixed, @now@, @now@, @now@ + :lease_us, :info)
ON CONFLICT (name) DO UPDATE SET
  token = CASE WHEN l.owner = excluded.owner THEN l.token
    -- mutant: postgres-token-by-the-clock-alone
    ELSE greatest(l.token + 1, excluded.token) END,
  since_us = CASE WHEN l.owner = excluded.owner THEN l.since_us ELSE excluded.since_us END,
  kind = excluded.kind, owner = excluded.owner, fixed = excluded.fixed,
  expires_us = excluded.expires_us, info = excluded.info
WHERE l.kind IN (0, 1, 2)
  AND (l.owner = excluded.owner
    OR ((l.owner IS NULL OR l.expires_us <= @now@)
      AND (l.waiting = 0 OR (:barge = 1 AND l.kind = 1))))
RETURNING 1, token;
