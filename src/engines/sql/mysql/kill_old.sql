-- A session holds its client's name as a named lock, and a new one has ended the former one already
-- (driver/mysql_session.c). Once the name is free, that has ended.
SELECT IF(COALESCE(GET_LOCK(:session, 1), 0) = 1, 0, 1);
