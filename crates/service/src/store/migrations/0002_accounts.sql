-- Accounts.
CREATE TABLE users (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,   -- never reused: ids are in tokens
  nickname      TEXT    NOT NULL UNIQUE,
  password_hash TEXT    NOT NULL,
  created_at_ms INTEGER NOT NULL
) STRICT;
