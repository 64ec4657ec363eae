-- include parts/use_name.inc.sql
DELETE FROM hf_hold WHERE name = :name AND expires_us <= @now@;
DELETE FROM hf_wait WHERE name = :name AND expires_us <= @now@ AND owner <> :owner;
-- include parts/take_kind.inc.sql
INSERT INTO hf_hold AS h (name, owner, mode, fixed, permits, token, since_us, expires_us, info)
SELECT :name, :owner, :mode, :fixed, :permits,
  -- mutant: reader-keeps-writers-token
  CASE WHEN :mode IN (2, 3) AND l.token > 0 THEN l.token ELSE greatest(l.token + 1, @now@) END,
  @now@,
  @now@ + :lease_us, :info
FROM hf_lock l
WHERE l.name = :name AND l.kind = :kind
  AND (:held = 0 OR EXISTS (SELECT FROM hf_hold m WHERE m.name = :name AND m.owner = :owner))
  AND (:kind <> 4 OR :limit = 0 OR l.value = :limit)
  AND CASE :mode
    WHEN 5 THEN l.value >= :permits + (SELECT coalesce(sum(o.permits), 0) FROM hf_hold o
      WHERE o.name = :name AND o.owner <> :owner AND o.mode <> 6)
    ELSE NOT EXISTS (SELECT FROM hf_hold o WHERE o.name = :name AND o.owner <> :owner
      AND (:mode = 4 AND o.mode <> 6 OR o.mode = 4 OR (:mode = 3 AND o.mode = 3))) END
  AND (EXISTS (SELECT FROM hf_hold m WHERE m.name = :name AND m.owner = :owner)
    OR NOT EXISTS (SELECT FROM hf_wait w WHERE w.name = :name AND w.owner <> :owner
      AND (w.mode <> 2 OR :mode = 4) AND (w.mode <> 5 OR w.permits <= l.value)
      AND (w.seq < coalesce((SELECT m.seq FROM hf_wait m
          WHERE m.name = :name AND m.owner = :owner), 9223372036854775807)
        OR EXISTS (SELECT FROM hf_hold r WHERE r.name = :name AND r.owner = w.owner))))
ON CONFLICT (name, owner) DO UPDATE SET
  token = CASE WHEN excluded.mode > h.mode THEN excluded.token ELSE h.token END,
  expires_us = CASE WHEN h.fixed = 1 THEN h.expires_us ELSE excluded.expires_us END,
  mode = greatest(h.mode, excluded.mode);
UPDATE hf_lock l SET token = h.token FROM hf_hold h
WHERE l.name = :name AND h.name = :name AND h.owner = :owner AND h.token > l.token;
DELETE FROM hf_wait w USING hf_hold h
WHERE w.name = :name AND w.owner = :owner
  AND h.name = :name AND h.owner = :owner AND h.mode >= :mode;
INSERT INTO hf_wait (name, owner, mode, fixed, permits, lease_us, since_us, expires_us, info)
SELECT :name, :owner, :mode, :fixed, :permits, :lease_us, @now@, @now@ + :place_us, :info
FROM hf_lock l
WHERE l.name = :name AND l.kind = :kind AND :enqueue = 1
  AND (:kind <> 4 OR ((:limit = 0 OR l.value = :limit) AND l.value >= :permits))
  AND NOT EXISTS (SELECT FROM hf_hold h
    WHERE h.name = :name AND h.owner = :owner AND h.mode >= :mode)
  AND (:held = 0 OR EXISTS (SELECT FROM hf_hold h WHERE h.name = :name AND h.owner = :owner))
ON CONFLICT (name, owner) DO UPDATE SET mode = excluded.mode, expires_us = excluded.expires_us;
-- The next claim may go on at the same time.
SELECT pg_notify('hf_' || encode(substr(w.owner, 1, 16), 'hex'),
  encode(substr(w.owner, 17), 'hex'))
FROM (SELECT owner FROM hf_wait WHERE name = :name ORDER BY seq LIMIT 1) w
WHERE w.owner <> :owner AND :mode IN (2, 3, 5)
  AND EXISTS (SELECT FROM hf_hold h WHERE h.name = :name AND h.owner = :owner);
SELECT CASE
    WHEN EXISTS (SELECT FROM hf_hold h
      WHERE h.name = :name AND h.owner = :owner AND h.mode >= :mode) THEN 1
    WHEN :held = 1 AND NOT EXISTS (SELECT FROM hf_hold h
      WHERE h.name = :name AND h.owner = :owner) THEN 5
    WHEN l.kind <> :kind AND NOT (l.kind IN (0, 1, 2, 3) AND :kind = 4
      AND (l.owner IS NULL OR l.expires_us <= @now@)
      AND NOT EXISTS (SELECT FROM hf_hold h WHERE h.name = :name AND h.mode <> 6)
      AND NOT EXISTS (SELECT FROM hf_wait w WHERE w.name = :name AND w.mode <> 5)) THEN 20 + l.kind
    WHEN :kind = 4 AND l.kind <> 4 AND :limit = 0 THEN 3
    WHEN :kind = 4 AND l.kind <> 4 THEN 6
    WHEN :kind = 4 AND :limit > 0 AND l.value <> :limit THEN 4
    WHEN :kind = 4 AND l.value < :permits THEN 6
    ELSE 0 END,
  coalesce((SELECT h.token FROM hf_hold h WHERE h.name = :name AND h.owner = :owner), l.token),
  greatest(coalesce((SELECT min(h.expires_us) FROM hf_hold h
    WHERE h.name = :name AND h.owner <> :owner AND h.mode <> 6), l.expires_us) - @now@, 0),
  (SELECT count(*) FROM hf_wait w WHERE w.name = :name
    AND w.seq <= (SELECT m.seq FROM hf_wait m WHERE m.name = :name AND m.owner = :owner)),
  CASE WHEN l.kind = 4 THEN l.value ELSE :limit END
FROM hf_lock l WHERE l.name = :name;
