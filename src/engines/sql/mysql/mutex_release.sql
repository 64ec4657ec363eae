-- No affected row: others wait for it, or it is not this owner's.
UPDATE hf_lock SET owner = NULL, expires_us = 0
-- mutant: mysql-release-by-owner
WHERE name = :name AND owner = :owner AND waiting = 0;
