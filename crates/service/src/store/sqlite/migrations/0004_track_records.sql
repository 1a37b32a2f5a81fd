-- Owners of tracks, runs recorded on them, and the ranking.
ALTER TABLE tracks ADD COLUMN owner_id INTEGER REFERENCES users (id);   -- NULL: a public trail, nobody's

CREATE TABLE track_records (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  track_id      INTEGER NOT NULL REFERENCES tracks (id) ON DELETE CASCADE,
  user_id       INTEGER NOT NULL REFERENCES users (id),
  duration_ms   INTEGER NOT NULL CHECK (duration_ms > 0),
  ran_at_ms     INTEGER NOT NULL,
  created_at_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX track_records_by_track ON track_records (track_id);        -- for the cascade

-- The ranking: the primary key is what makes a personal best the only one of its runner.
CREATE TABLE track_bests (
  track_id      INTEGER NOT NULL REFERENCES tracks (id) ON DELETE CASCADE,
  user_id       INTEGER NOT NULL REFERENCES users (id),
  duration_ms   INTEGER NOT NULL,
  record_id     INTEGER NOT NULL,
  PRIMARY KEY (track_id, user_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX track_bests_by_time ON track_bests (track_id, duration_ms, user_id);
