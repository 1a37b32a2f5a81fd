-- Traditional markets, and who looked at them.

CREATE TABLE markets (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  -- Folded name and place: what tells two markets apart in data that has no identifier of its own.
  natural_key   TEXT    NOT NULL UNIQUE,
  name          TEXT    NOT NULL CHECK (name <> ''),
  kind          TEXT,              -- 상설장, 5일장, 상설장+5일장
  cycle         TEXT,              -- 매일, 2일+7일
  road_address  TEXT,
  lot_address   TEXT,
  province_id   INTEGER REFERENCES regions (id),
  municipality_id INTEGER REFERENCES regions (id),
  lat           REAL,              -- WGS 84 degrees; both or neither
  lon           REAL,
  stores        INTEGER,
  goods         TEXT    NOT NULL,  -- joined with +
  vouchers      TEXT    NOT NULL,  -- joined with +
  homepage      TEXT,
  public_toilet INTEGER,
  parking       INTEGER,
  founded_year  INTEGER,
  phone         TEXT,
  facilities    INTEGER,           -- one bit for each facility; null = not known
  data_date     TEXT    NOT NULL,  -- YYYY-MM-DD; empty = not known
  provider      TEXT    NOT NULL,
  CHECK (road_address IS NOT NULL OR lot_address IS NOT NULL),
  CHECK ((lat IS NULL) = (lon IS NULL))
) STRICT;

-- One row for each visitor, market and day; days that are over are folded into `settled`.
CREATE TABLE market_views (
  day       INTEGER NOT NULL,      -- since 1970-01-01, in Korea
  market_id INTEGER NOT NULL REFERENCES markets (id),
  visitor   BLOB    NOT NULL CHECK (length(visitor) = 16),  -- keyed hash, another one each day
  PRIMARY KEY (day, market_id, visitor)
) STRICT, WITHOUT ROWID;

-- views = settled + rows of market_views, at every commit.
CREATE TABLE market_view_counts (
  market_id INTEGER PRIMARY KEY REFERENCES markets (id),
  views     INTEGER NOT NULL,
  settled   INTEGER NOT NULL
) STRICT;
