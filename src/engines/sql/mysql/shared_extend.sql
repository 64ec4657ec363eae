UPDATE hf_hold SET expires_us = GREATEST(expires_us + 1, @now@ + :lease_us)
WHERE name = :name AND owner = :owner AND expires_us > @now@;
