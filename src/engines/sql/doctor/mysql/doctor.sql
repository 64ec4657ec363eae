-- Facts, as pairs. The rights are those of the account: a role's are not among them.
SELECT 'clock_us' AS fact, CAST(@now@ AS CHAR) AS value
UNION ALL SELECT 'user', CAST(CURRENT_USER() AS CHAR)
UNION ALL SELECT 'role', CAST(CURRENT_ROLE() AS CHAR)
UNION ALL SELECT 'named_lock', IF(IS_USED_LOCK(:session) = CONNECTION_ID(), 'yes', 'no')
UNION ALL SELECT 'tables', CAST(COUNT(*) AS CHAR) FROM information_schema.tables
  WHERE table_schema = DATABASE() AND table_name IN ('hf_lock', 'hf_hold', 'hf_wait')
UNION ALL SELECT 'unsafe_tables', CAST(GROUP_CONCAT(table_name SEPARATOR ', ') AS CHAR)
  FROM information_schema.tables
  WHERE table_schema = DATABASE() AND table_name IN ('hf_lock', 'hf_hold', 'hf_wait')
    AND engine <> 'InnoDB'
UNION ALL SELECT 'missing_rights', CAST(GROUP_CONCAT(n.p SEPARATOR ', ') AS CHAR)
  FROM (SELECT 'SELECT' AS p UNION ALL SELECT 'INSERT' UNION ALL SELECT 'UPDATE'
    UNION ALL SELECT 'DELETE' UNION ALL SELECT 'CREATE') n
  WHERE NOT EXISTS (SELECT 1 FROM information_schema.user_privileges u
      WHERE u.privilege_type = n.p AND u.grantee = CONCAT('''',
        REPLACE(CURRENT_USER(), '@', '''@'''), ''''))
    AND NOT EXISTS (SELECT 1 FROM information_schema.schema_privileges s
      WHERE s.privilege_type = n.p AND DATABASE() LIKE s.table_schema AND s.grantee = CONCAT('''',
        REPLACE(CURRENT_USER(), '@', '''@'''), ''''))
    AND (SELECT COUNT(*) FROM information_schema.table_privileges t
      WHERE t.privilege_type = n.p AND t.table_schema = DATABASE()
        AND t.table_name IN ('hf_lock', 'hf_hold', 'hf_wait') AND t.grantee = CONCAT('''',
        REPLACE(CURRENT_USER(), '@', '''@'''), '''')) < 3
    AND NOT (n.p = 'CREATE' AND (SELECT COUNT(*) FROM information_schema.tables i
      WHERE i.table_schema = DATABASE() AND i.table_name IN ('hf_lock', 'hf_hold', 'hf_wait')) = 3);
