-- As this session has them. MySQL and MariaDB differ in what they call the isolation level.
SHOW VARIABLES WHERE Variable_name IN ('version', 'transaction_isolation', 'tx_isolation',
  'read_only', 'innodb_read_only', 'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin',
  'max_connections', 'innodb_lock_wait_timeout', 'lock_wait_timeout', 'time_zone');
