-- Up to which entry the stream of likes is in the tables, for each of its parts; of which generation that is, and up to
-- which one it was when that began.
CREATE TABLE IF NOT EXISTS like_positions (
  part       SMALLINT PRIMARY KEY,
  position   BIGINT NOT NULL DEFAULT 0,
  generation VARCHAR(16) NOT NULL DEFAULT '',
  closed     BIGINT NOT NULL DEFAULT 0
);
INSERT IGNORE INTO like_positions (part) VALUES
  (0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15);
-- Whether likes go through the stream, on all nodes or on none; NULL until the first node says so.
ALTER TABLE madang_cluster ADD COLUMN IF NOT EXISTS likes_stream TINYINT;
-- Proofs of work that let an attempt pass, until they expire (Unix seconds).
CREATE TABLE IF NOT EXISTS used_proofs (
  proof   BIGINT PRIMARY KEY,
  expires BIGINT NOT NULL,
  KEY used_proofs_by_expiry (expires)
);
-- Which schema version the program of a lane's node knows.
ALTER TABLE outbox_lanes ADD COLUMN IF NOT EXISTS program BIGINT NOT NULL DEFAULT 0;
