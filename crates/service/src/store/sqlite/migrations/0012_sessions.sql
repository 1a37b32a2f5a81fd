-- Sessions, for their owners to see. The tokens of log-ins before this step are in none.
CREATE TABLE sessions (
  id         BLOB    PRIMARY KEY CHECK (length(id) = 16),   -- of the token
  user_id    INTEGER NOT NULL,
  issued_at  INTEGER NOT NULL,   -- seconds since 1970, as in the token
  expires_at INTEGER NOT NULL,
  device     TEXT    NOT NULL CHECK (length(device) <= 200)
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_by_user ON sessions (user_id, issued_at);
CREATE INDEX sessions_by_expiry ON sessions (expires_at);
