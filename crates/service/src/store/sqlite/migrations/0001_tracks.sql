-- Running tracks. The path is in a table of its own so that lists never page it in.
CREATE TABLE tracks (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,   -- never reused: ids are part of cache keys
  name          TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
  rate          REAL    NOT NULL DEFAULT 0 CHECK (rate BETWEEN 0 AND 5),
  length_metres REAL    NOT NULL CHECK (length_metres >= 0),
  points        INTEGER NOT NULL CHECK (points >= 2),
  start_lat     REAL    NOT NULL CHECK (start_lat BETWEEN -90 AND 90),
  start_lon     REAL    NOT NULL CHECK (start_lon BETWEEN -180 AND 180),
  fingerprint   BLOB    NOT NULL UNIQUE CHECK (length(fingerprint) = 32),  -- SHA-256 of name and path
  created_at_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX tracks_by_length ON tracks (length_metres DESC, id DESC);

CREATE TABLE track_paths (
  track_id INTEGER PRIMARY KEY REFERENCES tracks (id) ON DELETE CASCADE,
  path     BLOB    NOT NULL
) STRICT;

-- Starting points by nearness. Coordinates in an R*Tree are 32-bit, rounded outwards, so a box
-- finds every start inside it and a few beside it; the exact distance is computed from `tracks`.
CREATE VIRTUAL TABLE track_starts USING rtree (id, min_lat, max_lat, min_lon, max_lon);

CREATE TRIGGER tracks_start_insert AFTER INSERT ON tracks BEGIN
  INSERT INTO track_starts VALUES (new.id, new.start_lat, new.start_lat, new.start_lon, new.start_lon);
END;
CREATE TRIGGER tracks_start_delete AFTER DELETE ON tracks BEGIN
  DELETE FROM track_starts WHERE id = old.id;
END;
CREATE TRIGGER tracks_start_update AFTER UPDATE OF start_lat, start_lon ON tracks BEGIN
  UPDATE track_starts SET min_lat = new.start_lat, max_lat = new.start_lat,
                          min_lon = new.start_lon, max_lon = new.start_lon WHERE id = new.id;
END;
