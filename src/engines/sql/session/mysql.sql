-- What is said to MySQL and MariaDB about their named locks, as in postgres.sql. MariaDB has no "for ever".
-- try
SELECT GET_LOCK(:name_text, 0) @seen@;
-- wait
SELECT GET_LOCK(:name_text, 31536000) @seen@;
-- unlock
SELECT RELEASE_LOCK(:name_text) @seen@;
-- beat
SELECT 1 @seen@;
-- cancel
KILL QUERY :value;
-- set_up
SET SESSION wait_timeout = :lease_us;
-- facts
SELECT CONNECTION_ID(), SLEEP(0.001) * 0 + (SYSDATE(6) > NOW(6)), VERSION();
-- cluster
SHOW GLOBAL VARIABLES LIKE 'wsrep_on';
-- A user sees its own sessions; with the right PROCESS, all.
-- show
SELECT 1, 0, h.id, '', '', COALESCE(p.HOST, ''), COALESCE(p.USER, ''), '', 0, 0, 0, 0, -1
FROM (SELECT IS_USED_LOCK(:name_text) AS id) h
LEFT JOIN information_schema.PROCESSLIST p ON p.ID = h.id
WHERE h.id IS NOT NULL
UNION ALL
SELECT 0, 0, ID, CAST(ID AS CHAR), '', HOST, USER, '', 0, 0, 0, 0,
  CAST(/*M!100100 TIME_MS */ /*!50700 TIME * 1000 */ AS SIGNED)
FROM information_schema.PROCESSLIST
WHERE STATE = 'User lock'
  AND (INSTR(INFO, CONCAT('GET_LOCK(_utf8mb4 x''', LOWER(HEX(:name_text)), '''')) > 0
    OR INSTR(INFO, CONCAT('GET_LOCK(''', :name_text, '''')) > 0)
ORDER BY 1 DESC, 13 DESC, 3;
-- What the holder's session has locked, for users that may see it. The names by which holdfast finds a session are no
-- locks of a user's.
-- locks
SELECT IS_USED_LOCK(:name_text), COUNT(*),
  COALESCE(LEFT(GROUP_CONCAT(OBJECT_NAME ORDER BY OBJECT_NAME SEPARATOR ', '), 120), ''),
  CONCAT(IS_USED_LOCK(:name_text), '-',
    COALESCE(LEFT(SHA2(GROUP_CONCAT(OBJECT_NAME ORDER BY OBJECT_NAME), 256), 8), ''))
FROM performance_schema.metadata_locks l
JOIN performance_schema.threads t ON t.THREAD_ID = l.OWNER_THREAD_ID
WHERE OBJECT_TYPE = 'USER LEVEL LOCK' AND LOCK_STATUS = 'GRANTED'
  AND t.PROCESSLIST_ID = IS_USED_LOCK(:name_text)
  AND OBJECT_NAME NOT REGEXP '^holdfast[0-9a-f]{32}s[0-9]+$';
-- locks_plugin
SELECT IS_USED_LOCK(:name_text), COUNT(*),
  COALESCE(LEFT(GROUP_CONCAT(TABLE_SCHEMA ORDER BY TABLE_SCHEMA SEPARATOR ', '), 120), ''),
  CONCAT(IS_USED_LOCK(:name_text), '-',
    COALESCE(LEFT(SHA2(GROUP_CONCAT(TABLE_SCHEMA ORDER BY TABLE_SCHEMA), 256), 8), ''))
FROM information_schema.METADATA_LOCK_INFO
WHERE LOCK_TYPE = 'User lock' AND THREAD_ID = IS_USED_LOCK(:name_text)
  AND TABLE_SCHEMA NOT REGEXP '^holdfast[0-9a-f]{32}s[0-9]+$';
-- end
KILL CONNECTION :value;
-- doctor
SELECT VERSION(), CURRENT_USER(), @@session.wait_timeout, @@max_connections, -1, -1,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)), 0;
