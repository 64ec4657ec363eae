-- What is said to PostgreSQL about its advisory locks. Each section is one statement; @key@ is a number of
-- 64 bits, or a pair. What locks is answered as: whether it has, the server's clock, the session's number. The clock is
-- read behind the lock, so later owners read later times.
-- try
SELECT pg_try_advisory_lock(@key@) @seen@;
-- wait
SELECT pg_advisory_lock(@key@) @seen@;
-- unlock
SELECT pg_advisory_unlock(@key@) @seen@;
-- try_shared
SELECT pg_try_advisory_lock_shared(@key@) @seen@;
-- wait_shared
SELECT pg_advisory_lock_shared(@key@) @seen@;
-- unlock_shared
SELECT pg_advisory_unlock_shared(@key@) @seen@;
-- lower
SELECT pg_advisory_lock_shared(@key@) IS NOT NULL AND pg_advisory_unlock(@key@) @seen@;
-- beat
SELECT 1 @seen@;
-- cancel
SELECT pg_cancel_backend(:value::int4);
-- No setting of the server's ends the session, or its connection, before its client has stopped believing in it. A
-- setting that an older version lacks stays as it is.
-- set_up
SELECT set_config('lock_timeout', '0', false),
  (SELECT count(set_config(s.name, CASE s.name WHEN 'tcp_keepalives_idle' THEN (:lease_us / 1000 + 1)::text
      WHEN 'tcp_keepalives_interval' THEN '3' WHEN 'tcp_keepalives_count' THEN '3' ELSE :lease_us::text END, false))
    FROM (SELECT name FROM pg_settings WHERE name IN ('idle_session_timeout', 'tcp_user_timeout',
      'tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count') OFFSET 0) s);
-- facts
SELECT pg_backend_pid(), 1, '';
-- Holders first, then those that wait, the oldest first.
-- show
@locks@
SELECT s.granted, s.mode = 'ShareLock', s.pid::bigint, coalesce(w.key, s.pid::text),
  coalesce(s.application_name, ''), s.host, coalesce(s.usename::text, ''), coalesce(w.told, ''),
  coalesce(w.locks, 0), s.high, s.low, s.form,
  coalesce((extract(epoch FROM clock_timestamp() - s.waits::timestamptz) * 1000)::bigint, -1)
FROM seen s LEFT JOIN whole w ON w.pid = s.pid
WHERE :verb = 0 OR (s.high = :value AND s.low = :limit AND s.form = :verb)
ORDER BY s.form, s.high, s.low, s.granted DESC, s.waits;
-- break
@locks@, holders AS (SELECT DISTINCT w.* FROM whole w JOIN seen s ON s.pid = w.pid
  WHERE s.granted AND s.high = :value AND s.low = :limit AND s.form = :verb)
SELECT h.pid::bigint, h.locks, h.told, coalesce(h.key = :info_text::text, true),
  CASE WHEN h.pid <> pg_backend_pid() AND CASE WHEN :info_text::text IS NULL
    THEN (SELECT max(locks) FROM holders WHERE pid <> pg_backend_pid()) = 1 ELSE h.key = :info_text::text END
  THEN pg_terminate_backend(h.pid) ELSE false END
FROM holders h;
-- doctor
SELECT current_setting('server_version'), current_user::text,
  coalesce(current_setting('idle_session_timeout', true), ''),
  (SELECT setting FROM pg_settings WHERE name = 'max_connections')::bigint,
  (SELECT count(*) FROM pg_stat_activity), (SELECT count(*) FROM pg_stat_replication), @now@,
  current_setting('server_version_num')::bigint;
-- The advisory locks of this database, without those by which holdfast finds a session. The key of a holder names all
-- that its session has locked, so that breaking ends no more than was shown.
-- @locks@
WITH seen AS (
  SELECT l.pid, l.classid::bigint AS high, l.objid::bigint AS low, l.objsubid::bigint AS form, l.granted,
    l.mode, to_jsonb(l) ->> 'waitstart' AS waits, a.application_name, a.usename,
    coalesce(a.client_hostname, host(a.client_addr), '') AS host
  FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
  WHERE l.locktype = 'advisory'
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (l.objsubid = 1 AND a.application_name LIKE 'holdfast%'
      AND (l.classid::bigint << 32 | l.objid::bigint)
        = (hashtext(a.application_name)::bigint << 32) # hashtext('2' || a.application_name)) IS NOT TRUE),
whole AS (
  SELECT pid, count(*) AS locks,
    pid || '-' || lpad(to_hex(hashtext(string_agg(concat_ws(',', high, low, form, mode), ';'
      ORDER BY high, low, form, mode))), 8, '0') AS key,
    left(string_agg(CASE form WHEN 1 THEN (high << 32 | low)::text
      ELSE concat(high::bit(32)::int, ':', low::bit(32)::int) END, ', ' ORDER BY high, low), 120) AS told
  FROM seen WHERE granted GROUP BY pid);
