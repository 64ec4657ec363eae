-- No affected row: refused. Else the token is the statement's insert id. Where it is this owner's
-- already (it was handed over, or an earlier reply was lost), it stays so, with the same token and
-- a new lease. Columns are assigned from left to right: after "owner", its being ours says it all.
INSERT INTO hf_lock (name, kind, owner, fixed, token, since_us, expires_us, info)
VALUES (:name, :kind, :owner, :fixed, LAST_INSERT_ID(@now@), @now@, @now@ + :lease_us, :info)
ON DUPLICATE KEY UPDATE
  token = IF(kind IN (0, 1, 2) AND (owner <=> VALUES(owner)
      OR ((owner IS NULL OR expires_us <= @now@) AND (waiting = 0 OR (:barge = 1 AND kind = 1)))),
    LAST_INSERT_ID(IF(owner <=> VALUES(owner), token, GREATEST(token + 1, @now@))), token),
  since_us = IF(kind IN (0, 1, 2) AND NOT (owner <=> VALUES(owner))
      AND (owner IS NULL OR expires_us <= @now@) AND (waiting = 0 OR (:barge = 1 AND kind = 1)),
    VALUES(since_us), since_us),
  owner = IF(kind IN (0, 1, 2) AND (owner IS NULL OR expires_us <= @now@)
      AND (waiting = 0 OR (:barge = 1 AND kind = 1)), VALUES(owner), owner),
  kind = IF(owner <=> VALUES(owner), VALUES(kind), kind),
  fixed = IF(owner <=> VALUES(owner), VALUES(fixed), fixed),
  info = IF(owner <=> VALUES(owner), VALUES(info), info),
  expires_us = IF(owner <=> VALUES(owner), VALUES(expires_us), expires_us);
