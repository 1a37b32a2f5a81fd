-- Nearness by an ordinary table, deletions that leave their rows to a housekeeper, users that an operator can delete.

-- A deletion is one short statement whatever hangs on the row: what is left of it is noted here and goes in small
-- transactions. Until then nobody sees it, because ids are never used again.
CREATE TABLE deleted_tracks (id INTEGER PRIMARY KEY) STRICT;
CREATE TABLE deleted_users (id INTEGER PRIMARY KEY) STRICT;

-- So nothing refers to a user by a foreign key, nor runs to their track: the key would have to be followed by the
-- statement that deletes, row by row, or would refuse it. This is the documented way to take constraints away that
-- say nothing of how rows are stored (sqlite.org/lang_altertable.html, 7); RESET reads the schema anew.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(replace(replace(replace(sql,
    ' REFERENCES users (id) ON DELETE CASCADE', ''),
    ' REFERENCES users (id) ON DELETE SET NULL', ''),
    ' REFERENCES users (id)', ''),
    ' REFERENCES tracks (id) ON DELETE CASCADE', '')
  WHERE type = 'table' AND name IN ('schedules', 'schedule_counts', 'tracks', 'track_records', 'track_bests', 'posts',
                                    'articles', 'article_comments');
PRAGMA writable_schema = RESET;

-- Where a track starts, as a place on a Z-order curve (G. M. Morton, "A computer oriented geodetic data base", IBM
-- 1966): 32 bits of longitude and 31 of latitude, one of each in turn, so that codes with the same first bits are a
-- rectangle and a range of the index. A step is 8.4e-8 degrees on both axes, less than the 1e-7 of stored starts.
ALTER TABLE tracks ADD COLUMN start_x INTEGER
  GENERATED ALWAYS AS (CAST((start_lon + 180.0) / 360.0 * 4294967295.0 AS INTEGER)) VIRTUAL;
ALTER TABLE tracks ADD COLUMN start_y INTEGER
  GENERATED ALWAYS AS (CAST((start_lat + 90.0) / 180.0 * 2147483647.0 AS INTEGER)) VIRTUAL;
ALTER TABLE tracks ADD COLUMN start_cell INTEGER GENERATED ALWAYS AS (
    ((start_x & 1) << 0) | ((start_y & 1) << 1) | ((start_x & 2) << 1) | ((start_y & 2) << 2) |
    ((start_x & 4) << 2) | ((start_y & 4) << 3) | ((start_x & 8) << 3) | ((start_y & 8) << 4) |
    ((start_x & 16) << 4) | ((start_y & 16) << 5) | ((start_x & 32) << 5) | ((start_y & 32) << 6) |
    ((start_x & 64) << 6) | ((start_y & 64) << 7) | ((start_x & 128) << 7) | ((start_y & 128) << 8) |
    ((start_x & 256) << 8) | ((start_y & 256) << 9) | ((start_x & 512) << 9) | ((start_y & 512) << 10) |
    ((start_x & 1024) << 10) | ((start_y & 1024) << 11) | ((start_x & 2048) << 11) | ((start_y & 2048) << 12) |
    ((start_x & 4096) << 12) | ((start_y & 4096) << 13) | ((start_x & 8192) << 13) | ((start_y & 8192) << 14) |
    ((start_x & 16384) << 14) | ((start_y & 16384) << 15) | ((start_x & 32768) << 15) | ((start_y & 32768) << 16) |
    ((start_x & 65536) << 16) | ((start_y & 65536) << 17) | ((start_x & 131072) << 17) | ((start_y & 131072) << 18) |
    ((start_x & 262144) << 18) | ((start_y & 262144) << 19) | ((start_x & 524288) << 19) | ((start_y & 524288) << 20) |
    ((start_x & 1048576) << 20) | ((start_y & 1048576) << 21) | ((start_x & 2097152) << 21) | ((start_y & 2097152) << 22) |
    ((start_x & 4194304) << 22) | ((start_y & 4194304) << 23) | ((start_x & 8388608) << 23) | ((start_y & 8388608) << 24) |
    ((start_x & 16777216) << 24) | ((start_y & 16777216) << 25) | ((start_x & 33554432) << 25) | ((start_y & 33554432) << 26) |
    ((start_x & 67108864) << 26) | ((start_y & 67108864) << 27) | ((start_x & 134217728) << 27) | ((start_y & 134217728) << 28) |
    ((start_x & 268435456) << 28) | ((start_y & 268435456) << 29) | ((start_x & 536870912) << 29) | ((start_y & 536870912) << 30) |
    ((start_x & 1073741824) << 30) | ((start_y & 1073741824) << 31) | ((start_x & 2147483648) << 31)
  ) VIRTUAL;

-- An ordinary table in that order takes the place of the R*Tree, which read every start of a box however many
-- lay on one spot.
DROP TRIGGER tracks_start_insert;
DROP TRIGGER tracks_start_delete;
DROP TRIGGER tracks_start_update;
DROP TABLE track_starts;
CREATE TABLE track_starts (
  cell INTEGER NOT NULL,
  lat  REAL    NOT NULL,
  lon  REAL    NOT NULL,
  id   INTEGER NOT NULL,
  PRIMARY KEY (cell, lat, lon, id)
) STRICT, WITHOUT ROWID;
INSERT INTO track_starts SELECT start_cell, start_lat, start_lon, id FROM tracks ORDER BY 1, 2, 3, 4;

CREATE TRIGGER tracks_start_insert AFTER INSERT ON tracks BEGIN
  INSERT INTO track_starts VALUES (new.start_cell, new.start_lat, new.start_lon, new.id);
END;
CREATE TRIGGER tracks_start_update AFTER UPDATE OF start_lat, start_lon ON tracks BEGIN
  DELETE FROM track_starts
    WHERE cell = old.start_cell AND lat = old.start_lat AND lon = old.start_lon AND id = old.id;
  INSERT INTO track_starts VALUES (new.start_cell, new.start_lat, new.start_lon, new.id);
END;

CREATE TRIGGER tracks_delete AFTER DELETE ON tracks BEGIN
  DELETE FROM track_starts
    WHERE cell = old.start_cell AND lat = old.start_lat AND lon = old.start_lon AND id = old.id;
  DELETE FROM track_paths WHERE track_id = old.id;
  INSERT OR IGNORE INTO deleted_tracks VALUES (old.id);
END;

-- A user who goes leaves tracks, posts, articles and comments behind, without a name, and takes runs, schedules and
-- likes along. A trigger, because it also works for an operator's connection, which enforces no foreign keys.
DROP TRIGGER articles_user_delete;
CREATE TRIGGER users_delete AFTER DELETE ON users BEGIN
  INSERT OR IGNORE INTO deleted_users VALUES (old.id);
END;

-- These find what is left of a user. Likes are found by reading all of them: an index by user took two fifths of the
-- likes a second.
CREATE INDEX tracks_by_owner ON tracks (owner_id) WHERE owner_id IS NOT NULL;
CREATE INDEX track_records_by_user ON track_records (user_id);
CREATE INDEX track_bests_by_user ON track_bests (user_id);

-- Users that were deleted before, on a connection without foreign keys, and of whom something is left.
INSERT INTO deleted_users
  SELECT user_id FROM (
    SELECT user_id FROM track_bests UNION SELECT user_id FROM schedules UNION SELECT user_id FROM schedule_counts
    UNION SELECT owner_id FROM tracks UNION SELECT author_id FROM posts)
  WHERE user_id IS NOT NULL AND user_id NOT IN (SELECT id FROM users);
