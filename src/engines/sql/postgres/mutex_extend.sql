UPDATE hf_lock SET expires_us = greatest(expires_us, @now@ + :lease_us)
WHERE name = :name AND owner = :owner AND expires_us > @now@
RETURNING 1;
