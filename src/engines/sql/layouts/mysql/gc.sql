-- Rows that keep no other owner out.
-- answer
SELECT COUNT(*) FROM {table} WHERE {cleaned};
DELETE FROM {table} WHERE {cleaned};
