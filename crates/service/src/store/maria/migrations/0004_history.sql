-- What one server remembers without a gap: bodies of a shared cache that belong to another history are not used.
ALTER TABLE madang_cluster ADD COLUMN IF NOT EXISTS history BIGINT NOT NULL DEFAULT 1;
ALTER TABLE madang_cluster ADD COLUMN IF NOT EXISTS server_run BIGINT NOT NULL DEFAULT 0;
