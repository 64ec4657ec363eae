-- A session holds its client's name as a named lock, so that a later one finds it. Where there is
-- no other session, the KILL names none, which the driver takes for success.
KILL CONNECTION COALESCE(NULLIF(IS_USED_LOCK(:session), CONNECTION_ID()), 0);
SELECT IF(COALESCE(GET_LOCK(:session, 1), 0) = 1, 0, 1);
