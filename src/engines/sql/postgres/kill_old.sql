-- Sessions of this client but the asking one, as far as this user may see and end them. They hold
-- the client's advisory lock (driver/postgres.c). A name alone is no proof: a pooler that lends a
-- session to another program may leave the name on it, and resets what the session has locked.
-- answer
SELECT count(pg_terminate_backend(a.pid)) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE a.datname = current_database() AND a.application_name = :session
  AND a.pid <> pg_backend_pid() AND a.usename = current_user
  -- mutant: session-is-ended-by-its-name-alone
  AND l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted AND a.datid = l.database
  AND (l.classid::bigint << 32 | l.objid::bigint) = (hashtext(:session)::bigint << 32) # hashtext('2' || :session);
SELECT pg_try_advisory_lock((hashtext(:session)::bigint << 32) # hashtext('2' || :session));
