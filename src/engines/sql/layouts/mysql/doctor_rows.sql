-- Facts, as pairs. Is each day of the session's time zone one of UTC, in winter and in summer?
SELECT 'odd_rows' AS fact, CAST(COUNT(*) AS CHAR) AS value FROM {table} WHERE {odd}
UNION ALL SELECT 'zoned_columns', CAST(GROUP_CONCAT(column_name SEPARATOR ', ') AS CHAR)
  FROM information_schema.columns
  WHERE {in_utc} AND table_schema = DATABASE() AND table_name = '{table}'
    AND data_type = 'timestamp'
    AND (UNIX_TIMESTAMP('2026-01-01') % 86400 <> 0 OR UNIX_TIMESTAMP('2026-07-01') % 86400 <> 0);
