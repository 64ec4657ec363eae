-- Rows that keep no other owner out.
-- answer
SELECT count(*) FROM {table} WHERE {cleaned};
DELETE FROM {table} WHERE {cleaned};
