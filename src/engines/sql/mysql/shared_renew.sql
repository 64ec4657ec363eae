UPDATE hf_hold SET expires_us = GREATEST(@now@ + :lease_us, expires_us + 1)
WHERE name = :name AND owner = :owner AND expires_us > @now@;
