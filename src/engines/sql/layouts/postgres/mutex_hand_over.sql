-- answer
SELECT 1 FROM {table} WHERE {key} AND {me} AND {live};
{release};
