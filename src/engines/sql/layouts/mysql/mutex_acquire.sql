-- A row that keeps no other owner out is taken over. The unique key decides which owner makes a new
-- one.
UPDATE {table} SET {take} WHERE {key} AND ({me} OR ({live}) IS NOT TRUE);
INSERT INTO {table} ({columns})
SELECT {values} FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE {key})
ON DUPLICATE KEY UPDATE {noop};
-- answer
SELECT 1, @now@ FROM {table} WHERE {key} AND {me} AND {live};
