-- The head of the queue, readers up to the first that is none, and owners that hold already and
-- want more. The driver notifies the channels when the script has been committed.
SELECT DISTINCT CONCAT('hf_', LOWER(HEX(SUBSTR(w.owner, 1, 16)))) AS hf_notify
FROM (SELECT owner, ROW_NUMBER() OVER (ORDER BY seq) AS place,
    SUM(mode NOT IN (2, 7)) OVER (ORDER BY seq) AS others
  FROM hf_wait WHERE name = :name AND expires_us > @now@) w
WHERE NOT (w.owner <=> :owner) AND (w.place = 1 OR w.others = 0
  OR EXISTS (SELECT 1 FROM hf_hold h WHERE h.name = :name AND h.owner = w.owner));
