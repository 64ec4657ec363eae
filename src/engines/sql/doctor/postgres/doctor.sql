-- Facts, as pairs. The settings are those of this session.
SELECT name, setting FROM pg_settings WHERE name IN ('server_version', 'transaction_isolation',
  'fsync', 'full_page_writes', 'synchronous_commit', 'max_connections', 'TimeZone',
  'synchronous_standby_names')
UNION ALL SELECT 'clock_us', @now@::text
UNION ALL SELECT 'user', current_user::text
UNION ALL SELECT 'connections', count(datid)::text FROM pg_stat_activity
UNION ALL SELECT 'replicas', count(*)::text FROM pg_stat_replication
UNION ALL SELECT 'tls', version || ' ' || cipher FROM pg_stat_ssl
  WHERE pid = pg_backend_pid() AND ssl;
