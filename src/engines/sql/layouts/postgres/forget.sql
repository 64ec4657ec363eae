-- Only shedlock leaves a row.
DELETE FROM {table} WHERE {key} AND {forgotten};
SELECT COUNT(*) FROM {table} WHERE {key} AND {live};
