-- The columns of the engine's own tables: the object, and its holder.
SELECT 0, {shown_name}, 1, 0, 0, 0, 0, NULL::bytea, NULL::bytea, 0, 0, 0, 0
FROM {table} WHERE {key} AND {live}
UNION ALL
SELECT 1, {shown_name}, 1, 0, 1, 0, 0, {shown_owner}, {shown_info}, -1, {left}, 0, 0
FROM {table} WHERE {key} AND {live}
ORDER BY 2, 1;
