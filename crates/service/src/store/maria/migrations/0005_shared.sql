-- Up to which entry the stream of likes is in the tables, for each of its parts.
CREATE TABLE IF NOT EXISTS like_positions (
  part     SMALLINT PRIMARY KEY,
  position BIGINT NOT NULL
);
INSERT IGNORE INTO like_positions (part, position) VALUES
  (0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0),
  (8, 0), (9, 0), (10, 0), (11, 0), (12, 0), (13, 0), (14, 0), (15, 0);
-- Whether likes go through the stream, on all nodes or on none; NULL until the first node says so.
ALTER TABLE madang_cluster ADD COLUMN IF NOT EXISTS likes_stream TINYINT;
-- Proofs of work that let an attempt pass, until they expire (Unix seconds).
CREATE TABLE IF NOT EXISTS used_proofs (
  proof   BIGINT PRIMARY KEY,
  expires BIGINT NOT NULL,
  KEY used_proofs_by_expiry (expires)
);
