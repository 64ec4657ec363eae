-- answer
SELECT COUNT(*), CAST(COALESCE(SUM(:key IS NULL OR {me_key}), 0) AS SIGNED)
FROM {table} WHERE {key} AND {live};
{break};
