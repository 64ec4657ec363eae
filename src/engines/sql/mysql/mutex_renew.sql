-- mutant: mysql-renewal-never-sets-back
UPDATE hf_lock SET expires_us = @now@ + :lease_us + IF(expires_us = @now@ + :lease_us, 1, 0)
WHERE name = :name AND owner = :owner AND expires_us > @now@;
