UPDATE {table} SET {renew} WHERE {key} AND {me} AND {live};
-- answer
SELECT 1 FROM {table} WHERE {key} AND {me} AND {live};
