-- answer
SELECT count(*), count(*) FILTER (WHERE :key::bytea IS NULL OR {me_key})
FROM {table} WHERE {key} AND {live};
{break};
