-- The reply has been heard.
DELETE FROM hf_hold WHERE name = :name AND owner = :owner AND mode = 6;
