-- As this session has them. MySQL and MariaDB differ in what they call the isolation level.
SHOW VARIABLES WHERE Variable_name IN ('version', 'transaction_isolation', 'tx_isolation',
  'read_only', 'innodb_read_only', 'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin',
  'binlog_format', 'max_connections', 'time_zone');
