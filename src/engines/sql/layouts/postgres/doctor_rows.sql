-- Facts, as pairs.
SELECT 'odd_rows', count(*)::text FROM {table} WHERE {odd};
