-- Outcomes of creates that carried an Idempotency-Key, written in the transaction of the create.
CREATE TABLE idempotency_keys (
  user_id       INTEGER NOT NULL,
  route         TEXT    NOT NULL,   -- template: /v1/tracks/{id}/records
  key           TEXT    NOT NULL,
  number        INTEGER NOT NULL,   -- of this user's keys, upwards: the oldest have to go first
  fingerprint   BLOB    NOT NULL CHECK (length(fingerprint) = 32),   -- SHA-256 of path, query and body
  outcome       TEXT    NOT NULL,   -- JSON
  expires_at_ms INTEGER NOT NULL,
  PRIMARY KEY (user_id, route, key)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX idempotency_keys_by_number ON idempotency_keys (user_id, number);
CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at_ms);
