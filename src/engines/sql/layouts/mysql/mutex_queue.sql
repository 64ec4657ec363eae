-- A look, which inserts nothing. No row: it can be taken.
SELECT IF({me}, 1, 0), @now@, GREATEST({left}, 0), 1
FROM {table} WHERE {key} AND {live};
