-- The row of the name is there, and no other transaction changes the name. The time of this use
-- keeps a clean-up away, also one that has begun and cannot see what comes into the other tables.
-- The row of a mutex that is held has the time of its grant.
INSERT INTO hf_lock (name, since_us) VALUES (:name, @now@)
ON DUPLICATE KEY UPDATE since_us = IF(expires_us > @now@, since_us, VALUES(since_us));
