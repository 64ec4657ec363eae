-- What :key has becomes :owner's.
SELECT 1 FROM hf_lock WHERE name = :name FOR UPDATE;
UPDATE hf_lock SET owner = :owner WHERE name = :name AND owner = :key AND expires_us > @now@;
UPDATE hf_hold SET owner = :owner WHERE name = :name AND owner = :key AND expires_us > @now@;
SELECT 1, token, expires_us - @now@, kind - 1, 1::bigint
FROM hf_lock WHERE name = :name AND owner = :owner AND expires_us > @now@
UNION ALL
SELECT 1, token, expires_us - @now@, mode, permits
FROM hf_hold WHERE name = :name AND owner = :owner AND expires_us > @now@ AND mode <> 6;
