-- include ../../tables/mysql/schema.sql
-- answer
SELECT COUNT(*) FROM {table} WHERE {live};
-- What has no end there is kept for a day. 100 characters are 400 bytes at most.
INSERT INTO hf_lock (name, kind, owner, fixed, token, since_us, expires_us, info)
SELECT {all_name}, 1, COALESCE({shown_owner}, LEFT(UNHEX(SHA2({owner_column}, 256)), 24)),
  1, @now@, @now@, @now@ + LEAST({left}, 86400000000), LEFT({shown_info}, 100)
FROM {table} WHERE {live}
ON DUPLICATE KEY UPDATE hf_lock.kind = hf_lock.kind;
