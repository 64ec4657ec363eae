-- include ../../tables/postgres/schema.sql
-- answer
SELECT count(*) FROM {table} WHERE {live};
-- What has no end there is kept for a day.
INSERT INTO hf_lock (name, kind, owner, fixed, token, since_us, expires_us, info)
SELECT {all_name}, 1, coalesce({shown_owner},
    decode(repeat(lpad(to_hex(hashtext({owner_column}::text)), 8, '0'), 6), 'hex')),
  1, @now@, @now@, @now@ + least({left}, 86400000000), {shown_info}
FROM {table} WHERE {live}
ON CONFLICT (name) DO NOTHING;
