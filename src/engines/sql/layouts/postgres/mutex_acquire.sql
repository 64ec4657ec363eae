-- A row that keeps no other owner out is taken over. The unique key decides which owner makes a new
-- one.
UPDATE {table} SET {take} WHERE {key} AND ({me} OR ({live}) IS NOT TRUE);
INSERT INTO {table} ({columns})
SELECT {values} WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE {key})
ON CONFLICT ({conflict}) DO NOTHING;
-- answer
SELECT 1, @now@ FROM {table} WHERE {key} AND {me} AND {live};
