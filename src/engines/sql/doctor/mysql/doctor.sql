-- Facts, as pairs.
SELECT 'clock_us' AS fact, CAST(@now@ AS CHAR) AS value
UNION ALL SELECT 'user', CAST(CURRENT_USER() AS CHAR)
UNION ALL SELECT 'role', CAST(CURRENT_ROLE() AS CHAR)
UNION ALL SELECT 'named_lock', IF(IS_USED_LOCK(:session) = CONNECTION_ID(), 'yes', 'no');
