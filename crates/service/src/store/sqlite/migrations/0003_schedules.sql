-- Schedules, their places, and the count that bounds them.
CREATE TABLE locations (
  id           INTEGER PRIMARY KEY,
  name         TEXT NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 100),   -- in Korean
  name_english TEXT NOT NULL        CHECK (length(name_english) BETWEEN 1 AND 100),
  lat          REAL NOT NULL        CHECK (lat BETWEEN -90 AND 90),
  lon          REAL NOT NULL        CHECK (lon BETWEEN -180 AND 180)
) STRICT;

CREATE TABLE schedules (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,   -- never reused: a deleted one's address stays dead
  user_id       INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  location_id   INTEGER NOT NULL REFERENCES locations (id),
  title         TEXT    NOT NULL CHECK (length(title) BETWEEN 1 AND 100),
  start_at_ms   INTEGER NOT NULL,                    -- UTC, milliseconds since 1970, as are the next two
  end_at_ms     INTEGER NOT NULL CHECK (end_at_ms > start_at_ms),
  created_at_ms INTEGER NOT NULL
) STRICT;

-- Serves the listing (the row's id is the last column of every index), and counting by user.
CREATE INDEX schedules_by_user ON schedules (user_id, start_at_ms);

-- How many rows a user has in `schedules`. Whoever adds or removes rows there changes the count in the
-- same transaction; that is done by statements and not by triggers, because the conditional update
-- of the count *is* the check of the limit. To mend it after changes by hand:
--   DELETE FROM schedule_counts;
--   INSERT INTO schedule_counts SELECT user_id, count(*) FROM schedules GROUP BY user_id;
CREATE TABLE schedule_counts (
  user_id INTEGER PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
  n       INTEGER NOT NULL CHECK (n >= 0)
) STRICT;

-- Public places to begin with; coordinates to about 100 m.
INSERT INTO locations (id, name, name_english, lat, lon) VALUES
  (1, '서울광장', 'Seoul Plaza', 37.566, 126.978),
  (2, '여의도한강공원', 'Yeouido Hangang Park', 37.528, 126.933),
  (3, '서울숲', 'Seoul Forest', 37.544, 127.037),
  (4, '올림픽공원', 'Olympic Park', 37.521, 127.121),
  (5, '월드컵공원', 'World Cup Park', 37.568, 126.885),
  (6, '부산시민공원', 'Busan Citizens Park', 35.168, 129.057),
  (7, '해운대해수욕장', 'Haeundae Beach', 35.158, 129.160),
  (8, '광안리해수욕장', 'Gwangalli Beach', 35.153, 129.119),
  (9, '두류공원', 'Duryu Park', 35.849, 128.558),
  (10, '수성못', 'Suseong Lake', 35.828, 128.615),
  (11, '인천대공원', 'Incheon Grand Park', 37.459, 126.753),
  (12, '송도센트럴파크', 'Songdo Central Park', 37.392, 126.639),
  (13, '중외공원', 'Jungoe Park', 35.182, 126.884),
  (14, '한밭수목원', 'Hanbat Arboretum', 36.367, 127.388),
  (15, '엑스포과학공원', 'Expo Science Park', 36.376, 127.387),
  (16, '태화강국가정원', 'Taehwagang National Garden', 35.548, 129.297),
  (17, '울산대공원', 'Ulsan Grand Park', 35.532, 129.290),
  (18, '세종호수공원', 'Sejong Lake Park', 36.497, 127.272),
  (19, '화성행궁광장', 'Hwaseong Haenggung Plaza', 37.282, 127.014),
  (20, '일산호수공원', 'Ilsan Lake Park', 37.657, 126.767),
  (21, '광교호수공원', 'Gwanggyo Lake Park', 37.284, 127.067),
  (22, '율동공원', 'Yuldong Park', 37.379, 127.147),
  (23, '공지천유원지', 'Gongjicheon Park', 37.873, 127.712),
  (24, '경포호', 'Gyeongpo Lake', 37.796, 128.905),
  (25, '상당공원', 'Sangdang Park', 36.641, 127.490),
  (26, '탄금공원', 'Tangeum Park', 36.983, 127.908),
  (27, '독립기념관', 'Independence Hall of Korea', 36.784, 127.223),
  (28, '공산성', 'Gongsanseong Fortress', 36.464, 127.125),
  (29, '전주한옥마을', 'Jeonju Hanok Village', 35.815, 127.153),
  (30, '덕진공원', 'Deokjin Park', 35.847, 127.122),
  (31, '순천만국가정원', 'Suncheonman National Garden', 34.928, 127.502),
  (32, '이순신광장', 'Yi Sun-sin Plaza', 34.738, 127.736),
  (33, '보문호', 'Bomun Lake', 35.845, 129.283),
  (34, '영일대해수욕장', 'Yeongildae Beach', 36.060, 129.380),
  (35, '용지호수공원', 'Yongji Lake Park', 35.232, 128.683),
  (36, '진주성', 'Jinju Fortress', 35.189, 128.079),
  (37, '사라봉공원', 'Sarabong Park', 33.518, 126.546),
  (38, '한라수목원', 'Halla Arboretum', 33.470, 126.493),
  (39, '천지연폭포', 'Cheonjiyeon Waterfall', 33.247, 126.554);
