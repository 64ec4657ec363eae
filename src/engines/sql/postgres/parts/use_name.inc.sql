-- The row of the name is there, and no other transaction changes the name. The time of this use
-- keeps a clean-up away, also one that has begun and cannot see what comes into the other tables.
-- The row of a mutex that is held has the time of its grant.
INSERT INTO hf_lock AS l (name, since_us) VALUES (:name, @now@)
ON CONFLICT (name) DO UPDATE SET
  -- mutant: name-in-use-is-cleaned-away
  since_us = CASE WHEN l.expires_us > @now@ THEN l.since_us ELSE excluded.since_us END;
