-- Facts, as pairs. The settings are those of this session.
SELECT name, setting FROM pg_settings WHERE name IN ('server_version', 'transaction_isolation',
  'fsync', 'full_page_writes', 'synchronous_commit', 'max_connections', 'lock_timeout',
  'statement_timeout', 'TimeZone', 'synchronous_standby_names')
UNION ALL SELECT 'clock_us', @now@::text
UNION ALL SELECT 'user', current_user::text
UNION ALL SELECT 'connections', count(datid)::text FROM pg_stat_activity
UNION ALL SELECT 'replicas', count(*)::text FROM pg_stat_replication
UNION ALL SELECT 'tls', version || ' ' || cipher FROM pg_stat_ssl
  WHERE pid = pg_backend_pid() AND ssl
UNION ALL SELECT 'tables', count(to_regclass(t))::text
  FROM (VALUES ('hf_lock'), ('hf_hold'), ('hf_wait')) n(t)
UNION ALL SELECT 'unsafe_tables', string_agg(relname, ', ') FROM pg_class
  WHERE relpersistence <> 'p'
    AND oid IN (to_regclass('hf_lock'), to_regclass('hf_hold'), to_regclass('hf_wait'))
-- The sequence numbers the waiters: without it the first lock that is contended fails.
UNION ALL SELECT 'missing_rights', string_agg(p || ' on ' || t, '; ' ORDER BY t)
  FROM (SELECT t, string_agg(p, ', ' ORDER BY p)
      FROM (VALUES ('hf_lock'), ('hf_hold'), ('hf_wait')) n(t),
        (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) r(p)
      WHERE to_regclass(t) IS NOT NULL AND NOT has_table_privilege(to_regclass(t), p) GROUP BY t
    UNION ALL SELECT t, 'USAGE' FROM (VALUES ('hf_wait_seq_seq')) n(t)
      WHERE to_regclass(t) IS NOT NULL AND NOT has_sequence_privilege(to_regclass(t), 'USAGE')
  ) missing(t, p)
UNION ALL SELECT 'missing_rights', 'CREATE on the schema ' || coalesce(current_schema(), 'of the search path')
  WHERE coalesce(NOT has_schema_privilege(current_schema(), 'CREATE'), true)
    AND (to_regclass('hf_lock') IS NULL OR to_regclass('hf_hold') IS NULL
      OR to_regclass('hf_wait') IS NULL);
