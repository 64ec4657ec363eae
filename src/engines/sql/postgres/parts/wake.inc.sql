-- The head of the queue, readers up to the first that is none, and owners that hold already and
-- want more.
SELECT pg_notify('hf_' || encode(substr(w.owner, 1, 16), 'hex'),
  encode(substr(w.owner, 17), 'hex'))
FROM (SELECT owner, row_number() OVER (ORDER BY seq) AS rank,
    count(*) FILTER (WHERE mode NOT IN (2, 7)) OVER (ORDER BY seq) AS others
  FROM hf_wait WHERE name = :name AND expires_us > @now@) w
WHERE w.owner IS DISTINCT FROM :owner AND (w.rank = 1 OR w.others = 0
  OR EXISTS (SELECT FROM hf_hold h WHERE h.name = :name AND h.owner = w.owner));
