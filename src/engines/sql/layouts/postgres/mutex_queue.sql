-- A look, which inserts nothing. No row: it can be taken.
SELECT CASE WHEN {me} THEN 1 ELSE 0 END, @now@, GREATEST({left}, 0::bigint), 1
FROM {table} WHERE {key} AND {live};
